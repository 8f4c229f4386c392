#!/bin/sh
# The whole benchmark of the README; resumable: the same command goes on. Two and a half hours on two quiet cores. 40 prompts of each set
# are answered; those of MT-Bench are 20 conversations of two turns. LIMIT, TWO_TURNS, DRAFTER_LIMIT (prompts a set for the head and what is
# grown from it, conversations, prompts for the rest) and GROWN_NODES change what is measured.
cd "$(dirname "$0")/.." || exit 1
exec .venv/bin/phrasedraft bench --nodes 4,8,16,46 \
	--prompts gsm8k_test --prompts math500 --prompts "mt_bench@${TWO_TURNS:-20}" --prompts humaneval \
	--drafter head+suffix-automaton+token-recycling@${GROWN_NODES:-auto} \
	--drafter benchmarks/heads/token-chain-8k@8 --drafter benchmarks/heads/phrase-chain-8k@8 --drafter benchmarks/heads/words-8k@8 \
	--drafter suffix-automaton@8 --drafter token-recycling@8 --drafter prompt-lookup@8 \
	--drafter-limit "${DRAFTER_LIMIT:-5}" --limit "${LIMIT:-40}" --twice --paper -o benchmarks/full "$@"
