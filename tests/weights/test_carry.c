/* What a folder made of another one gets of it besides weights, and what is told of the rest. */
#include "weights/carry.h"

#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config[] =
    "{\"model_type\":\"llama\",\"vocab_size\":64,\"hidden_size\":24,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"intermediate_size\":40,\"max_position_embeddings\":32,\"pretraining_tp\":1}";

/* `carried` is all that comes along, by the alphabet; `left` what is left of the rest. */
static void check_carried(TaskKind task, const char *carried, const char *left) {
    static const char *const names[] = {
        "README.md",         "chat_template.jinja",         "generation_config.json", "merges.txt",
        "model.safetensors", "special_tokens_map.json",     "tokenizer.json",         "tokenizer_config.json",
        "vocab.json",        "model.safetensors.index.json"};
    Config cfg = test_checkpoint_config();
    const char *from = test_dir(), *to = test_dir();
    char want[700], *said = NULL;
    size_t n;
    Err err = {""};
    test_write_text(from, "config.json", config);
    for (size_t i = 0; i < COUNTOF(names); i++) test_write_text(from, names[i], names[i]);
    cfg.task = task;
    FILE *f = open_memstream(&said, &n);
    CHECK_MSG(carry_over(from, to, &cfg, f, &err) == 0, "%s", err.msg);
    fclose(f);
    snprintf(want, sizeof want,
             "carried over from %s: %s\nleft behind in %s: %s\n"
             "left out of %s/config.json: pretraining_tp\n",
             from, carried, from, left, from);
    CHECK_MSG(!strcmp(said, want), "%s\nnot\n%s", said, want);
    for (size_t i = 0; i < COUNTOF(names); i++) {
        char *copy = test_read_file(test_text("%s/%s", to, names[i]), NULL);
        CHECK_MSG(strstr(carried, names[i]) ? copy && !strcmp(copy, names[i]) : !copy, "%s", names[i]);
        free(copy);
    }
    carry_withdraw(to);
    CHECK(rmdir(to) == 0); /* nothing is left in it */
    free(said);
}

TEST(carry_over_takes_what_there_is_a_use_for) {
    check_carried(TASK_TEXT_GENERATION,
                  "chat_template.jinja, generation_config.json, special_tokens_map.json, tokenizer_config.json",
                  "README.md");
    check_carried(TASK_TEXT_CLASSIFICATION, "special_tokens_map.json, tokenizer_config.json",
                  "README.md, chat_template.jinja, generation_config.json");
}
