#!/bin/sh
# The whole benchmark of the README; resumable: the same command goes on. About three hours on two cores for --limit 40.
cd "$(dirname "$0")/.." || exit 1
exec .venv/bin/phrasedraft bench --prompts all --nodes 4,8,16,46 \
	--drafter head+suffix-automaton+token-recycling@8,16,auto --drafter head+suffix-automaton@16 \
	--drafter benchmarks/heads/token-chain-8k@8 --drafter benchmarks/heads/phrase-chain-8k@8 --drafter benchmarks/heads/words-8k@8 \
	--drafter suffix-automaton@8 --drafter token-recycling@8 --drafter prompt-lookup@8 \
	--drafter-limit "${DRAFTER_LIMIT:-5}" --limit "${LIMIT:-40}" --twice --paper -o benchmarks/full "$@"
