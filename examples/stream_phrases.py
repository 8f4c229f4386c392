"""Stream an answer and mark what was drafted: [drafted] tokens cost no pass of their own."""

from phrasedraft import Decoder, Stopping, load_head, load_target

target = load_target("smollm2-135m")
decoder = Decoder(target, load_head("smollm2-135m"))
stream = decoder.stream(
    [{"role": "user", "content": "A farmer has 12 cows and buys 7 more. How many cows are there?"}],
    stopping=Stopping(max_new_tokens=48),
)
for piece in stream:
    print(f"[{piece.text}]" if piece.was_drafted else piece.text, end="", flush=True)
stats = stream.result.stats
print(f"\n{stats.mean_acceptance_length:.2f} tokens per pass, {stats.landing:.0%} of passes accepted a draft")
