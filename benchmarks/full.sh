#!/bin/sh
# The whole benchmark of the README; resumable: the same command goes on. About two and a half hours on two quiet cores for 40 prompts a
# set. LIMIT, DRAFTER_LIMIT (prompts a set for the head and what is grown from it, for the rest) and GROWN_NODES change what is measured.
cd "$(dirname "$0")/.." || exit 1
exec .venv/bin/phrasedraft bench --prompts all --nodes 4,8,16,46 \
	--drafter head+suffix-automaton+token-recycling@${GROWN_NODES:-auto} \
	--drafter benchmarks/heads/token-chain-8k@8 --drafter benchmarks/heads/phrase-chain-8k@8 --drafter benchmarks/heads/words-8k@8 \
	--drafter suffix-automaton@8 --drafter token-recycling@8 --drafter prompt-lookup@8 \
	--drafter-limit "${DRAFTER_LIMIT:-5}" --limit "${LIMIT:-40}" --twice --paper -o benchmarks/full "$@"
