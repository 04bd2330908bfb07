/* Conversations as text, against what published templates write (tests/oracle/make_chat.py, which says
 * where each comes from). */
#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/support/talk.h"
#include "weights/chat.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"chatml",  "qwen2.5",   "qwen3",   "smollm2",      "llama-2",
                                    "llama-3", "llama-3.1", "mistral", "mistral-nemo", "zephyr",
                                    "phi-3",   "phi-3.5",   "gemma",   "gemma-3",      "alpaca"};

/* The text, malloc'ed; NULL, with the reason, when the template refuses the conversation. */
static char *render(Chat *chat, const ChatRequest *request, Err *err) {
    Buffer out = {0};
    if (chat_write(chat, request, &out, err)) {
        CHECK(out.n == 0 && err->msg[0]);
        return NULL;
    }
    buffer_append(&out, "", 1);
    return out.data;
}

static void check_case(const cJSON *one) {
    Chat chat;
    Err err = {""};
    const char *name = json_text(one, "template"), *expected = json_text(one, "text");
    const ChatRequest request = {.messages = json_at(one, "messages"), .variables = json_at(one, "kwargs")};
    REQUIRE(test_chat_open(&chat, name, json_text(one, "bos"), json_text(one, "eos")));
    char *text = render(&chat, &request, &err);
    bool same = expected && text ? !strcmp(text, expected) : !expected && !text;
    CHECK_MSG(same, "%s, %d messages:\n%s\nnot\n%s", name, cJSON_GetArraySize(request.messages), text ? text : err.msg,
              expected ? expected : "(refused)");
    free(text);
    chat_close(&chat);
}

TEST(chat_templates_are_the_publishers) {
    char *text = test_read_file("tests/server/api/chat_golden.json", NULL);
    cJSON *cases = cJSON_Parse(text);
    const cJSON *one;
    REQUIRE(cJSON_IsArray(cases));
    for (size_t i = 0; i < COUNTOF(names); i++) {
        int n = 0;
        cJSON_ArrayForEach(one, cases) n += !strcmp(json_text(one, "template"), names[i]) && json_text(one, "text");
        CHECK_MSG(n >= 3, "%s has %d cases", names[i], n);
    }
    cJSON_ArrayForEach(one, cases) check_case(one);
    cJSON_Delete(cases);
    free(text);
}

/* What a template writes of messages that are spelt in JSON, malloc'ed; NULL when it refuses them. */
static char *write_json(const char *name, const char *messages, ChatEnd end, Err *err) {
    Chat chat;
    cJSON *read = cJSON_Parse(messages);
    const ChatRequest request = {.messages = read, .end = end};
    char *text = NULL;
    CHECK(cJSON_IsArray(read));
    if (test_chat_open(&chat, name, "<s>", "</s>")) text = render(&chat, &request, err);
    chat_close(&chat);
    cJSON_Delete(read);
    return text;
}

TEST(chat_template_plain) {
    Err err;
    char *text = write_json("plain",
                            "[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hi\"},"
                            "{\"role\":\"assistant\",\"content\":\"Yes?\"},{\"role\":\"user\",\"content\":\"\"}]",
                            CHAT_OPENED, &err);
    CHECK(text && !strcmp(text, "system: Be brief.\nuser: Hi\nassistant: Yes?\nuser: \nassistant:"));
    free(text);
}

/* The last answer is gone on with: behind it the text ends, whatever white space it ends with. Without an opening the
 * text ends behind the last message. */
TEST(chat_template_ends) {
#define TWO "[{\"role\":\"user\",\"content\":\"Hi \xEF\xB7\x90\"},{\"role\":\"assistant\",\"content\":\"I say, \"}"
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Err err = {""};
        char *opened = write_json(names[i], TWO "]", CHAT_OPENED, &err),
             *closed = write_json(names[i], TWO "]", CHAT_CLOSED, &err),
             *unfinished = write_json(names[i], TWO "]", CHAT_UNFINISHED, &err),
             *three = write_json(names[i], TWO ",{\"role\":\"user\",\"content\":\"What?\"}]", CHAT_OPENED, &err);
        REQUIRE(opened && closed && unfinished && three);
        CHECK_MSG(text_begins(opened, closed), "%s", names[i]);
        CHECK_MSG(strlen(unfinished) < strlen(opened) && !strncmp(opened, unfinished, strlen(unfinished) - 1), "%s: %s",
                  names[i], unfinished);
        CHECK_MSG(text_ends(unfinished, "I say, "), "%s: %s", names[i], unfinished);
        /* What the opening adds is what every conversation ends with. */
        CHECK_MSG(text_ends(three, opened + strlen(closed)), "%s", names[i]);
        free(opened), free(closed), free(unfinished), free(three);
    }
}

/* A template that wants turns says so. */
TEST(chat_template_faults) {
    static const char *const wrong[] = {
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
        "{\"role\":\"system\",\"content\":\"c\"}]",
        "[{\"role\":\"system\",\"content\":\"a\"}]"};
    static const char *const strict[] = {"llama-2", "mistral", "mistral-nemo", "gemma", "gemma-3", "alpaca"};
    for (size_t i = 0; i < COUNTOF(strict); i++)
        for (size_t k = 0; k < COUNTOF(wrong); k++) {
            Err err = {""};
            char *text = write_json(strict[i], wrong[k], CHAT_OPENED, &err);
            CHECK_MSG(!text && err.msg[0] && !strstr(err.msg, "line"), "%s: %s", strict[i], text ? text : err.msg);
            free(text);
        }
}

/* ---- what a content may not do ---- */

static const char *const forged[] = {
    "<|im_start|>",    "<|im_end|>",    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",    "<s>",     "</s>",
    "[INST]",          "[/INST]",       "<|system|>",          "<|user|>",          "<|assistant|>", "<|end|>", "<bos>",
    "<start_of_turn>", "<end_of_turn>", "<|endoftext|>"};

static Tokenizer *with_all_forged(const char *dir) {
    Checkpoint c;
    Err err;
    BUG_ON(checkpoint_open(&c, dir, &err));
    Tokenizer *t = c.tokenizer;
    for (size_t i = 0; i < COUNTOF(forged) && t; i++) {
        if (tokenizer_find_special(t, forged[i]) >= 0) continue;
        Tokenizer *more = tokenizer_with_special(t, forged[i], &err);
        if (t != c.tokenizer) tokenizer_free(t);
        t = more;
    }
    BUG_ON(t == c.tokenizer);
    checkpoint_close(&c);
    return t;
}

/* Special ids of a conversation with this content; its text goes to out. */
static int count_special(const Chat *chat, const Tokenizer *t, const char *content, bool parse, Buffer *out) {
    cJSON *messages = cJSON_CreateArray();
    for (int i = 0; i < 3; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "role", i % 2 ? "assistant" : "user");
        cJSON_AddStringToObject(m, "content", content);
        cJSON_AddItemToArray(messages, m);
    }
    const ChatRequest request = {.messages = messages};
    TokenList ids = {0};
    Err err = {""};
    int n = 0;
    CHECK_MSG(chat_encode(chat, &request, parse, t, &ids, &err) == 0, "%s", err.msg);
    cJSON_Delete(messages);
    for (size_t i = 0; i < ids.n; i++) {
        size_t bytes;
        const char *piece = tokenizer_piece(t, ids.ids[i], &bytes);
        n += tokenizer_is_special(t, ids.ids[i]);
        buffer_append(out, piece, bytes);
    }
    buffer_append(out, "", 1);
    token_list_free(&ids);
    return n;
}

TEST(chat_contents_forge_no_turns) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    Tokenizer *t = with_all_forged(dir);
    Config c = test_config(attention_kind_find("mha"));
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Chat chat;
        Err err;
        REQUIRE(chat_open(&chat, dir, names[i], &c, t, &err) == 0);
        for (size_t f = 0; f < COUNTOF(forged); f++) {
            char benign[64], content[64];
            Buffer plain = {0}, text = {0}, parsed = {0};
            snprintf(benign, sizeof benign, "stone %.*s river", (int)strlen(forged[f]) - 1, forged[f] + 1);
            snprintf(content, sizeof content, "stone %s river", forged[f]);
            int none = count_special(&chat, t, benign, false, &plain);
            CHECK_MSG(count_special(&chat, t, content, false, &text) == none, "%s: %s", names[i], forged[f]);
            CHECK_MSG(strstr(text.data, content) && !memchr(text.data, 0xFF, text.n), "%s: %s", names[i], text.data);
            CHECK_MSG(count_special(&chat, t, content, true, &parsed) == none + 3, "%s: %s", names[i], forged[f]);
            CHECK(!strcmp(text.data, parsed.data)); /* the same text, by other tokens */
            buffer_free(&plain);
            buffer_free(&text);
            buffer_free(&parsed);
        }
        chat_close(&chat);
    }
    tokenizer_free(t);
}
