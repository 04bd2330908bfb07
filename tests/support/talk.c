#include "tests/support/talk.h"

#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"?", "the",  "river", "mill", "stone", "wheel", "turns", "again",        "slow",
                                    "a", "boat", "goes",  "down", "water", "night", "and",   "<|im_start|>", "user"};

static bool write_files(const char *dir) {
    const char *path = test_text("%s/tokenizer.json", dir);
    Tokenizer *t = tokenizer_of_words(words, COUNTOF(words), NULL);
    bool ok = t && tokenizer_json_save(t, path, NULL) == 0;
    if (t) tokenizer_free(t);
    test_write_text(dir, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"chat_template\":\"{% for m in messages %}"
                    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\"}");
    test_write_text(dir, "special_tokens_map.json", "{}");
    test_write_text(dir, "generation_config.json", "{\"do_sample\":false,\"pad_token_id\":0}");
    test_write_text(dir, "LICENSE", "of its own");
    return ok;
}

static char *say(const char *dir, const char *what) {
    Daemon d;
    char *text = NULL;
    if (!daemon_start_at(&d, dir, NULL)) return NULL;
    Answer a = http_post(&d, "/v1/chat/completions",
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"the river turns\"}],\"max_tokens\":12,"
                         "\"ignore_eos\":true}");
    const char *content = json_text(a.json, "choices.0.message.content");
    CHECK_MSG(a.status == 200 && content && *content, "%s, %s: %d %s", what, dir, a.status, a.body);
    if (content) text = strdup(content);
    daemon_stop(&d);
    return text;
}

static void check_said(const char *output, const char *what) {
    static const char *const lines[] = {" tensors, ",
                                        " become ",
                                        "matrices: ",
                                        ": generation_config.json, special_tokens_map.json, tokenizer_config.json\n",
                                        ": LICENSE",
                                        "tokenizer: 18 tokens\n",
                                        "chat: template own.",
                                        "requests that do not say: temperature 0\n",
                                        "not used of generation_config.json: pad_token_id\n"};
    for (size_t i = 0; i < COUNTOF(lines); i++)
        CHECK_MSG(strstr(output, lines[i]), "%s: no \"%s\" in:\n%s", what, lines[i], output);
}

void test_talks(const char *dir, const char *what) {
    static const char *const commands[] = {"import", "quantize"};
    const char *parent = test_dir();
    char to[300], output[4096];
    bool ready = write_files(dir);
    char *before = ready ? say(dir, what) : NULL;
    CHECK_MSG(ready, "%s: no tokenizer", what);
    for (size_t i = 0; i < COUNTOF(commands) && before; i++) {
        snprintf(to, sizeof to, "%s/%s", parent, commands[i]);
        CHECK_MSG(test_run_tool(test_text("%s %s %s", commands[i], dir, to), output) == 0, "%s: %s", what, output);
        check_said(output, what);
        char *after = say(to, what);
        if (i == 0) CHECK_MSG(after && !strcmp(after, before), "%s: \"%s\", not \"%s\"", what, after, before);
        free(after);
    }
    free(before);
}

bool test_chat_open(Chat *chat, const char *template, const char *bos, const char *eos) {
    Config c = test_config(attention_kind_find("mha"));
    Tokenizer *none = tokenizer_ids_only();
    Err err = {""};
    bool ok = chat_open(chat, ".", template, &c, none, &err) == 0;
    CHECK_MSG(ok, "%s: %s", template, err.msg);
    tokenizer_free(none);
    if (!ok) return false;
    free((char *)chat->manner.bos);
    free((char *)chat->manner.eos);
    chat->manner.bos = strdup(bos);
    chat->manner.eos = strdup(eos);
    return true;
}
