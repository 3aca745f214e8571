"""Former names and their replacements. The error for a former name gives the new one."""

PYTHON = {"running": "study", "conversations.Turn": "conversations.TopicTurn"}
"""Name in `pyterrier_ikat`, or in one of its rooms -> the new one."""
OF_RESOURCES = ("second_llm", "retriever", "dense", "rewriter", "expander", "prompts", "texts", "splade_model", "splade_query_model")
"""Resources that once had an option of their own."""
OPTIONS = {f"--{name.replace('_', '-')}": f"--resources {name}=..." for name in OF_RESOURCES} | {
    "--samples": "--repeats",
    "agree --run": "`ikat agree FIRST SECOND RUN...`",
    "chat --method": "`ikat chat METHOD`",
    "evaluate --bem": "--judge bem=FOLDER",
    "evaluate --measure": "--measures",
    "index --threads": "threads= of ikat.PassageIndex(PATH).index(...)",
    "interact --method": "`ikat interact ADDRESS METHOD`",
    "interact --timeout": "timeout= of ikat.interact(...)",
    "paper --prompts": 'a line prompts = "FOLDER" in the file of --resources',
    "report --passages": "passages= of ikat.report(...)",
    "serve --dataset": "dataset= of ikat.serve(...)",
    "serve --method": "`ikat serve METHOD...`",
    "serve --waiting": "limits= of ikat.serve(...)",
    "simulate --passages": "passages= of ikat.simulate(...)",
}
"""Option of the command line, with its command where others have the option -> the new one."""
ARGUMENTS = {"samples": "repeats"}
"""Argument of the functions that run systems -> the new one."""
COMMANDS = {
    "breakdown": "`ikat evaluate --by depth`",
    "evaluate-ptkb": "`ikat evaluate --of statements`",
    "evaluate-responses": "`ikat evaluate --of responses`",
    "evaluate-actions": "`ikat evaluate --of actions`",
    "simulate-users": "`ikat simulate --users FOLDER`",
}
"""Command -> the new one."""
