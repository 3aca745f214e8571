# %% [markdown]
# # From your chats to a memory
# **Question: what does an assistant need to remember of earlier chats to answer a new question?**
#
# Chats are exported, a model notes what the user says about themselves, BM25 finds the notes that a question needs, and an answer uses them. Memory, search
# and measures are real here. The language model is not: to run without a key, a small class below notes and answers by rule. So the notebook says nothing
# about the quality of notes and answers.

# %%
import json
import re
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
import pandas as pd
import pyterrier_ikat as ikat

pd.set_option("display.max_colwidth", 70)

# %% [markdown]
# ## A language model by rule
# Any object with `.generate()` is a language model. This one notes sentences that begin with "I" or "My", and in an answer it repeats what it is shown.

# %%
class ByRule:
    def generate(self, chats):
        return [self.note(chat[-1]["content"]) if "JSON list" in chat[-1]["content"] else self.answer(chat[-1]["content"]) for chat in chats]

    def note(self, prompt):
        lives = re.search(r"^(\d+): I live in", prompt, re.MULTILINE)
        said = [(int(number), sentence) for number, text in re.findall(r"^user (\d+): (.*)", prompt, re.MULTILINE)
                for sentence in re.split(r"(?<=[.?!]) ", text) if re.match(r"(I|My)\b.*\.$", sentence)]
        return json.dumps([{"message": number, "words": text, "statement": text.replace("I moved to", "I live in"),
                            "replaces": [lives[1]] if lives and "I moved to" in text else []} for number, text in said])

    def answer(self, prompt):
        known = re.findall(r"(?:^|, )\d+: (.*?)(?=, \d+: |$)", prompt, re.MULTILINE)
        return "I keep in mind what you told me: " + " ".join(known) if known else "Tell me more about you."

llm = ikat.llm(ByRule())

# %% [markdown]
# ## Two exports
# The first is a file of conversations with the messages of OpenAI's API: dicts of `role` and `content`.

# %%
chats = {
    "kitchen": {"date": "2024-03-02", "messages": [
        {"role": "user", "content": "I live in Lyon. I am allergic to peanuts. I need an idea for tonight."},
        {"role": "assistant", "content": "A vegetable gratin."},
        {"role": "user", "content": "My sister Ana is vegan. Does it need cream?"}]},
    "bicycle": {"date": "2024-05-20", "messages": [
        {"role": "user", "content": "I ride a bicycle to work in all weathers. Which lights last long?"},
        {"role": "assistant", "content": "Those with a hub dynamo."},
        {"role": "user", "content": "I moved to Oslo. Do I need other tyres in winter?"}]},
}
Path("chats.json").write_text(json.dumps(chats));

# %% [markdown]
# The second is a chat of this package, saved with `save_to` (`ikat chat --save`). Its folder has a topics file, which is a dataset. What the page of
# `ikat serve` exports is a topics file, too.

# %%
saved = ikat.Chat(ikat.Answer(llm), save_to="saved")
saved.say("I play the viola in a quartet. None of us has a car. Where can we rehearse?")
[conversation] = ikat.dataset("saved/topics.json").conversations
[turn.utterance for turn in conversation.turns]

# %% [markdown]
# ## The memory
# Each conversation is a session, and is learned from in the order of time. `when` says when it was said. The file is the memory of one person, `me`.

# %%
def messages_of(conversation):
    return [{"role": role, "content": text} for turn in conversation.turns for role, text in (("user", turn.utterance), ("assistant", turn.response))]

sessions = [(name, one["date"], one["messages"]) for name, one in json.loads(Path("chats.json").read_text()).items()]
sessions.append(("quartet", "2024-06-11", messages_of(conversation)))

memory = ikat.UserMemory("memory.jsonl", llm)
learned = {name: memory.learn("me", name, messages, when=date) for name, date, messages in sessions}
memory.table("me")[["id", "statement", "session", "turn", "when", "until"]].replace(r"T.*", "", regex=True)

# %% [markdown]
# Lyon was replaced and not deleted: the past can be asked.

# %%
pd.DataFrame({day: memory.known("me", as_of=day) for day in ("2024-03-03", "2024-06-30")}).fillna("")

# %% [markdown]
# ## Was the right thing learned?
# Labels say what was known before a session, and what should hold after it. The rules note that an idea was needed one evening, and keep it, which a person
# would not. They miss that there is no car, because that sentence begins with another word.

# %%
kitchen, bicycle = (memory.known("me", as_of=day) for day in ("2024-03-03", "2024-05-21"))
labels = pd.DataFrame({
    "qid": ["kitchen", "bicycle", "quartet"],
    "known": [{}, kitchen, bicycle],
    "holds": [["I live in Lyon.", "I am allergic to peanuts.", "My sister Ana is vegan."],
              ["I am allergic to peanuts.", "My sister Ana is vegan.", "I ride a bicycle to work in all weathers.", "I live in Oslo."],
              [*bicycle.values(), "I play the viola in a quartet.", "I have no car."]],
})
notes = pd.DataFrame({"qid": list(learned), "qlearned": list(learned.values())})
ikat.evaluation.evaluate_learned({"by rule": notes}, labels).round(2)

# %% [markdown]
# ## Which memories does a question need?
# BM25 ranks the statements that hold. No model is asked, and over 10,000 statements it takes about a millisecond.

# %%
questions = {"Which restaurants in Oslo are good?": "6", "What can my vegan sister eat?": "4", "Which instrument do I play?": "7",
             "Is satay sauce a good idea?": "2"}
known = memory.known("me")
found = {question: memory.search("me", question, 2) for question in questions}
pd.DataFrame({"question": question, "needs": known[needed], "BM25 finds": " ".join(known[number] for number, _ in found[question]),
              "found": needed in dict(found[question])} for question, needed in questions.items())

# %% [markdown]
# The last question shares no word with the statement that it needs, because satay is made of peanuts. Show all statements while there are few; with many,
# join BM25 with a dense ranking, and measure it on questions of yours.
#
# ## The answer
# The same search is a stage. The answer sees the best two statements, with the date on which they were said.

# %%
system = ikat.RankStatements(ikat.BM25Rerank(), n=2) >> ikat.ShowStatements("chosen") >> ikat.Answer(llm)
question = {"role": "user", "content": "What can my vegan sister from Oslo eat?"}
print(system(ikat.conversation([question], memories=memory.memories("me"), dated=True))["qanswer"].item())

# %% [markdown]
# A chat with the memory sees all that holds, and goes on learning:

# %%
chat = ikat.Chat(ikat.Answer(llm), memory=memory)
print(chat.say("I sing, too. What shall we sing?").response.strip())
list(memory.known("me").values())[-1]

# %% [markdown]
# ## To forget
# `forget` deletes for good, in the memory's file. A cache of completions and saved chats keep their words: `cache=none` keeps no completion.

# %%
memory.forget("me", id="2")
"peanuts" in Path("memory.jsonl").read_text()

# %% [markdown]
# ## Try next
# - Take a real model: `ikat.UserMemory("memory.jsonl", "openai:gpt-4o-mini")`, and read what it noted.
# - Put your own export in the place of `chats`.
# - `ikat chat --memory memory.jsonl` talks with this memory; `memory.export("me")` gives all that it has about a user.
