#include "tokenizer/chat_qwen3.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

typedef struct Span {
    const char *text;
    size_t n;
} Span;

static Span without_newlines(Span s, bool front, bool back) {
    while (front && s.n && s.text[0] == '\n') s.text++, s.n--;
    while (back && s.n && s.text[s.n - 1] == '\n') s.n--;
    return s;
}

/* Behind the last `mark` in s; all of s when there is none. */
static Span behind_last(Span s, const char *mark) {
    size_t length = strlen(mark);
    for (size_t at = s.n; at >= length; at--)
        if (!memcmp(s.text + at - length, mark, length)) return (Span){s.text + at, s.n - at};
    return s;
}

/* An answer as the template takes it apart. Without a </think> all of it is content. */
static void split_thoughts(const char *answer, Span *thoughts, Span *content) {
    const Span all = {answer, strlen(answer)};
    const char *end = strstr(answer, "</think>");
    *thoughts = (Span){"", 0};
    *content = all;
    if (!end) return;
    *content = without_newlines(behind_last(all, "</think>"), true, false);
    *thoughts = without_newlines((Span){answer, (size_t)(end - answer)}, false, true);
    *thoughts = without_newlines(behind_last(*thoughts, "<think>"), true, true);
}

/* Answers behind the user's last question keep their thoughts. What a tool said is no question. */
static int last_question(const ChatMessage *m, int n) {
    for (int i = n - 1; i >= 0; i--)
        if (m[i].role == CHAT_USER &&
            !(text_begins(m[i].content, "<tool_response>") && text_ends(m[i].content, "</tool_response>")))
            return i;
    return n - 1;
}

static void append_answer(Buffer *out, const char *answer, bool behind, bool last) {
    Span thoughts, content;
    split_thoughts(answer, &thoughts, &content);
    if (behind && (last || thoughts.n)) {
        buffer_text(out, "<think>\n");
        buffer_append(out, thoughts.text, thoughts.n);
        buffer_text(out, "\n</think>\n\n");
        content = without_newlines(content, true, false);
    }
    buffer_append(out, content.text, content.n);
}

int chat_render_qwen3(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                      ChatFault *fault) {
    static const char *const roles[] = {"system", "user", "assistant"};
    int question = last_question(m, n);
    (void)t, (void)fault;
    for (int i = 0; i < n; i++) {
        buffer_print(out, "<|im_start|>%s\n", roles[m[i].role]);
        if (m[i].role == CHAT_ASSISTANT)
            append_answer(out, m[i].content, i > question, i == n - 1);
        else
            buffer_text(out, m[i].content);
        buffer_text(out, "<|im_end|>\n");
    }
    if (words->end != CHAT_OPENED) return 0;
    buffer_text(out, "<|im_start|>assistant\n");
    if (!words->think) buffer_text(out, "<think>\n\n</think>\n\n");
    return 0;
}
