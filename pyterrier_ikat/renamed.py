"""Names of before, and what has taken their place: whoever uses an old one is told the new one in a line."""

PYTHON = {"running": "study"}
"""Name in `pyterrier_ikat` -> the new one."""
OF_RESOURCES = ("second_llm", "retriever", "dense", "rewriter", "expander", "prompts", "texts", "splade_model", "splade_query_model")
"""Resources that had an option of their own."""
OPTIONS = {f"--{name.replace('_', '-')}": f"--resources {name}=..." for name in OF_RESOURCES}
"""Option of the command line -> the new one."""
COMMANDS = {
    "evaluate-ptkb": "`ikat evaluate --of statements`",
    "evaluate-responses": "`ikat evaluate --of responses`",
    "evaluate-actions": "`ikat evaluate --of actions`",
    "simulate-users": "`ikat simulate --users FOLDER`",
}
"""Command -> the new one."""
