#!/usr/bin/env python3
"""Questions of published data sets as EleutherAI's lm-evaluation-harness asks them, for noised-train score.

    prompts.py TASK FILE.jsonl >TASK.jsonl          (TASK: a key of TASKS)

FILE has the data set's own fields, as on Hugging Face, or "query", "choices" and "gold" with the question in the words
of llm-foundry's local_data. What stands between a question and a choice is one space, score's default.
"""
import json
import re
import sys


def lettered(row):
    return row["choices"]["text"], row["choices"]["label"].index(row["answerKey"].strip())


def tidy(text):
    """WikiHow's half of HellaSwag has marks in brackets."""
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def arc(row):
    return row["question"], *lettered(row)


def piqa(row):
    return row["goal"], [row["sol1"], row["sol2"]], row["label"]


def siqa(row):
    return f"{row['context']} {row['question']}", [row["answer" + c] for c in "ABC"], int(row["label"]) - 1


def boolq(row):
    return f"{row['passage']}\nQuestion: {row['question']}?", ["no", "yes"], int(row["label"])


def openbook(row):
    return row["question_stem"], *lettered(row)


def hellaswag(row):
    text = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return tidy(text), [tidy(ending) for ending in row["endings"]], int(row["label"])


def sciq(row):
    wrong = [row[f"distractor{i}"] for i in (1, 2, 3)]
    return f"{row['support'].lstrip()}\nQuestion: {row['question']}", [*wrong, row["correct_answer"]], 3


def winogrande(row):
    """What follows the blank, behind the sentence up to it with either name in its place."""
    before, _, after = row["sentence"].partition("_")
    return {"contexts": [before + row["option1"], before + row["option2"]], "continuation": after.strip(),
            "gold": int(row["answer"]) - 1}


def lambada(row):
    context, _, word = row["text"].rpartition(" ")
    return {"context": context, "continuation": word}


# The fields' reader, what the harness puts around a question, what others put before it, and the metric that the paper
# shows: acc_norm is by characters.
TASKS = {
    "arc_easy": (arc, ("Question: ", "\nAnswer:"), "Question: ", "acc_norm"),
    "arc_challenge": (arc, ("Question: ", "\nAnswer:"), "Question: ", "acc_norm"),
    "hellaswag": (hellaswag, ("", ""), "", "acc_norm"),
    "piqa": (piqa, ("Question: ", "\nAnswer:"), "Question: ", "acc_norm"),
    "sciq": (sciq, ("", "\nAnswer:"), "", "acc_norm"),
    "siqa": (siqa, ("Q: ", "\nA:"), "", "acc"),
    "winogrande": (winogrande, None, None, "acc"),
    "openbook_qa": (openbook, ("", ""), "", "acc_norm"),
    "boolq": (boolq, ("", "\nAnswer:"), "Passage: ", "acc"),
    "lambada_openai": (lambada, None, None, "acc"),
}


def prompt(task, row):
    """One line of score's."""
    fields, around, others, _ = TASKS[task]
    if around is None:
        return row if "context" in row or "contexts" in row else fields(row)
    if "query" in row:
        text, choices, gold = row["query"].strip("\n").removeprefix(others), row["choices"], row["gold"]
    else:
        text, choices, gold = fields(row)
    return {"query": around[0] + text + around[1], "choices": choices, "gold": gold}


def prompts(task, path):
    with open(path, encoding="utf-8") as f:
        return "".join(json.dumps(prompt(task, json.loads(line)), ensure_ascii=False) + "\n" for line in f)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in TASKS:
        sys.exit(f"usage: prompts.py {'|'.join(TASKS)} FILE.jsonl")
    sys.stdout.write(prompts(*sys.argv[1:]))
