from phrasedraft import load_target
from phrasedraft.cli.conversation import Conversation

SHORT = ("--max-new-tokens", "12")


def test_each_line_of_a_pipe_is_a_turn(run, llama, head):
    talk = "hello\n\nand again\n/stats\n/exit\nnever read\n"
    result = run("chat", "--target", llama, "--head", head, *SHORT, stdin=talk)
    assert result.exit_code == 0
    assert "24 tokens in" in result.stderr
    assert result.stderr.count("cut after --max-new-tokens 12") == 2


def test_the_same_turns_give_the_same_answers_after_a_reset(run, llama, head):
    once = run("chat", "--target", llama, "--head", "none", *SHORT, stdin="hello\nmore\n").stdout
    twice = run("chat", "--target", llama, "--head", head, *SHORT, stdin="hello\nmore\n/reset\nhello\nmore\n").stdout
    assert twice == once * 2


def test_the_cache_of_earlier_turns_is_kept(run, llama):
    result = run("chat", "--target", llama, "--head", "none", *SHORT, stdin="hello\nmore\n/stats\n/reset\n/stats\n")
    counts = [int(line.split("; ")[-1].split()[0]) for line in result.stderr.splitlines() if "in the cache" in line]
    assert counts[0] > 2 * len("hello")
    assert counts[1] == 0


def test_an_unknown_command_is_named_and_costs_nothing(run, llama):
    result = run("chat", "--target", llama, "--head", "none", *SHORT, stdin="/bye\n")
    assert "no command /bye" in result.stderr
    assert result.stdout == ""


def test_the_oldest_turns_leave_and_the_system_message_stays(llama):
    target = load_target(llama)
    conversation = Conversation(target, system="be brief", template_arguments={}, reserve=16)
    dropped = []
    for turn in range(40):
        tokens, num_dropped = conversation.ask(f"question {turn} {'x' * 30}")
        dropped.append(num_dropped)
        assert len(tokens) <= target.context_limit - 16
        conversation.answered("y" * 30)
    assert sum(dropped) > 0
    assert conversation.messages[0] == {"role": "system", "content": "be brief"}
    assert conversation.messages[1]["role"] == "user"
    assert conversation.messages[-2]["content"].startswith("question 39")


def test_trimming_is_said_and_the_chat_goes_on(run, llama):
    long_turn = "x" * 400
    result = run("chat", "--target", llama, "--head", "none", *SHORT, stdin=f"{long_turn}\n" * 4)
    assert result.exit_code == 0
    assert "messages were dropped" in result.stderr


def test_a_turn_over_the_context_limit_is_refused(run, llama):
    result = run("chat", "--target", llama, "--head", "none", *SHORT, stdin="x" * 2000)
    assert result.exit_code == 2
    assert "context limit of 1024" in result.stderr


def test_template_arguments_reach_the_template(run, llama):
    result = run("chat", "--target", llama, "--head", "none", "--chat-template-kwargs", "[1]", stdin="hello\n")
    assert result.exit_code == 2
    assert "`[1]`" in result.stderr
    arguments = ("--target", llama, "--head", "none", *SHORT, "--chat-template-kwargs", '{"enable_thinking": false}')
    assert run("chat", *arguments, stdin="hello\n").exit_code == 0


def test_a_target_without_a_chat_template_is_refused(run, bloom):
    result = run("chat", "--target", bloom, "--head", "none", stdin="hello\n")
    assert result.exit_code == 2
    assert "no chat template" in result.stderr
    assert "hint:" in result.stderr


def test_ctrl_c_stops_the_answer_and_ctrl_d_leaves(run, llama, monkeypatch):
    from phrasedraft.cli import chatting

    class Terminal:
        turns = iter(["hello", KeyboardInterrupt, "/stats", EOFError])

        def read(self, _: str) -> str:
            turn = next(self.turns)
            if isinstance(turn, str):
                return turn
            raise turn

    written = []

    class Interrupting(chatting.DraftedText):
        def write(self, piece):
            super().write(piece)
            written.append(piece)
            if len(written) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", Terminal().read)
    monkeypatch.setattr(chatting, "DraftedText", Interrupting)
    monkeypatch.setattr(chatting, "is_interactive", lambda: True)
    result = run("chat", "--target", llama, "--head", "none", *SHORT)
    assert result.exit_code == 0
    assert "stopped" in result.stderr
    assert "(Ctrl-D leaves)" in result.stderr
    assert "3 tokens in" in result.stderr
