"""Facts about users, the events that note them, and a model that learns them."""

import json
import re
from itertools import cycle

LYON = "I live in Lyon."
OSLO = "I live in Oslo."
DOG = "I own a dog."
TEA = "I like tea."


def chat(*said):
    """Messages of the user, each answered but for the last."""
    messages = []
    for text in said:
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": f"About {text}"})
    return messages[:-1]


class Notes:
    """Learns every numbered message of the user that is no question, and counts the calls."""

    def __init__(self):
        self.prompts = []

    def generate(self, chats):
        return [self.answer(messages[0]["content"]) for messages in chats]

    def answer(self, prompt):
        self.prompts.append(prompt)
        known = prompt.partition("# About the user\n")[2].partition("\n")[0]
        homes = re.findall(r"(\d): I live in", known)[:1]
        learned = []
        for line in prompt.partition("# Conversation so far\n")[2].split("\n"):
            number, _, text = line.removeprefix("user ").partition(": ")
            if not number.isdigit() or text.endswith("?"):
                continue
            replaces = homes if "I live in" in text else []
            learned.append(
                {"message": number, "words": text, "statement": text, "replaces": replaces}
            )
        return json.dumps(learned)


def tell(memory, session, *said, user="u1"):
    """Learn from each message of a session when it is said."""
    for turn in range(1, len(said) + 1):
        memory.learn(user, session, chat(*said[:turn]))


def ids_and_hold(memory, user):
    """The id of each memory, and whether it still holds."""
    return [(entry["id"], entry["until"] is None) for entry in memory.memories(user)]


def statement(id, text, message=1, replaces=()):
    return {
        "id": id,
        "statement": text,
        "message": message,
        "words": text,
        "replaces": list(replaces),
    }


def learned(day, session, turn, *statements, said=()):
    return {
        "event": "learned",
        "when": f"2024-01-{day:02}",
        "user": "u",
        "session": session,
        "turn": turn,
        "said": list(said),
        "learned": list(statements),
    }


def undone(day, session, turn):
    return {
        "event": "undone",
        "when": f"2024-01-{day:02}",
        "user": "u",
        "session": session,
        "turn": turn,
    }


def reply(*statements):
    return json.dumps(
        [{"message": number, "words": text, "statement": text} for number, text in statements]
    )


def messages_of(*texts):
    """Messages of the user and the system in turn."""
    messages = []
    for role, text in zip(cycle(["user", "assistant"]), texts):
        messages.append({"role": role, "content": text})
    return messages
