import pytest

from pyterrier_ikat.completions.texts import parse_passage, parse_rewrite


@pytest.mark.parametrize(
    "text",
    [
        "Oats are cheap. They keep well.",
        "Oats are cheap.\nThey keep well.",
        "Style: blog\nOats are cheap. They keep well.",
        "**Style: government website**\n\nOats are cheap. They keep well.",
        "Here is the passage:\n\nOats are cheap. They keep well.",
        "Passage: Oats are cheap. They keep well.",
        "**Style: blog** Oats are cheap. They keep well.",
        "Style - encyclopedia.\nOats are cheap. They keep well.",
        "*Style*: government\nOats are cheap. They keep well.",
        "[Style: government website] Oats are cheap. They keep well.",
        "Style: encyclopedia\nPassage: Oats are cheap. They keep well.",
        '"Oats are cheap. They keep well."',
        "```\nOats are cheap. They keep well.\n```",
        "<think>blog?</think>\nAssistant: Oats are cheap. They keep well.",
        "**Passage**\n\nOats are cheap. They keep well.",
        '{"style": "blog", "passage": "Oats are cheap. They keep well."}',
        "„Oats are cheap. They keep well.“",
    ],
)
def test_a_passage_is_one_line_without_what_surrounds_it(text):
    assert parse_passage(text) == "Oats are cheap. They keep well."


@pytest.mark.parametrize(
    "text",
    [
        "Oats suit four kinds of cakes:\n1. plain\n2. with nuts",
        "Hafer passt zu diesen Kuchen:\n\n- Nuss\n- Apfel",
        "Cakes with oats are these:\n**By season:**\n* plum\n* apple",
        "燕麦适合这些糕点：\n1、苹果\n2、李子",
        "2. Cost:\nOats are cheap.",
        "Oats keep for a year in a dry jar, need no fridge, cost next to nothing and fill you for half a day, as these figures say:"
        "\nA kilo is 2 euros.",
        "燕麦在干燥的罐子里可以保存一年，不需要冰箱，几乎不花什么钱，而且能让你饱上半天，正如下面的这些数字所显示的那样：\n一公斤两欧元。",
    ],
)
def test_a_line_before_a_list_and_a_long_one_stay(text):
    assert parse_passage(text) == " ".join(text.split())


@pytest.mark.parametrize(
    "announced", ["Here you are:", "Voilà un passage plus court :", "下面是文章：", "Sure! A text on oats:\n\nPassage:"]
)
def test_a_short_line_before_prose_is_an_announcement(announced):
    assert parse_passage(f"{announced}\n\nOats are cheap.\n- They keep well.") == "Oats are cheap. - They keep well."


def test_a_sentence_about_style_is_no_style_line():
    assert parse_passage("Style: it changes every year, and oats were never in fashion at all.").startswith("Style: it")
    assert parse_passage("Style: blog posts are short. They keep well.") == "Style: blog posts are short. They keep well."


@pytest.mark.parametrize("text", ["", "...", "Style: blog", "<think>Oats.</think>", "I cannot assist with that request."])
def test_no_passage(text):
    assert parse_passage(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Which oats keep well? Cheap ones.",
        "Clarified utterance: Which oats keep well? Cheap ones.",
        'Restated:\n"Which oats keep well? Cheap ones."',
        "**Clarified question:** Which oats keep well? Cheap ones.",
        "# Restated message\nWhich oats keep well? Cheap ones.",
        "Restated message: Which oats keep well? Cheap ones.",
        "# Clarified utterance\n\nWhich oats keep well? Cheap ones.",
    ],
)
def test_a_clarified_utterance_comes_without_label(text):
    assert parse_rewrite(text) == "Which oats keep well? Cheap ones."


def test_quotations_within_a_passage_stay():
    assert parse_passage("“Oats,” he said. “Rye.”") == "“Oats,” he said. “Rye.”"


def test_no_clarified_utterance():
    assert parse_rewrite("...") == ""
