/* generation_config.json as a checkpoint reads it. */
#include "base/err.h"
#include "model/shape.h"
#include "server/api/completions/request.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test.h"
#include "tokenizer/chat_files.h"
#include "weights/chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder(const char *generation) {
    Config c = test_checkpoint_config();
    const char *dir = test_dir();
    test_checkpoint_save(dir, &c, DTYPE_F32);
    if (generation) test_write_text(dir, GENERATION_FILE, generation);
    return dir;
}

TEST(generation_adds_ends_and_says_what_is_not_used) {
    const char *plain = folder(NULL),
               *dir =
                   folder("{\"eos_token_id\":[7,9,7],\"temperature\":0.6,\"top_k\":20,\"top_p\":null,\"num_beams\":4,"
                          "\"transformers_version\":\"4.40.0\"}");
    Checkpoint a, b;
    REQUIRE(checkpoint_open(&a, plain, NULL) == 0 && checkpoint_open(&b, dir, NULL) == 0);
    int more = a.model.cfg.eos_token_id < 0 ? 1 : 2;
    CHECK(config_ends(&b.model.cfg, 7) && config_ends(&b.model.cfg, 9) && !config_ends(&a.model.cfg, 7));
    CHECK(b.model.cfg.n_more_ends == a.model.cfg.n_more_ends + more);
    CHECK(!a.generation.there && b.generation.there && strcmp(a.hash, b.hash)); /* other bytes, another fingerprint */
    Buffer said = {0};
    generation_print(&b.generation, &said);
    CHECK_MSG(said.n == 25 && !memcmp(said.data, "temperature 0.6, top_k 20", said.n), "%.*s", (int)said.n, said.data);
    CHECK(!strcmp(b.generation.unused, "num_beams, transformers_version") && !*a.generation.unused);
    buffer_free(&said);
    checkpoint_close(&a);
    checkpoint_close(&b);
}

TEST(generation_refuses_by_name) {
    static const char *const bad[][2] = {
        {"[]", "no JSON object"},
        {"{\"temperature\":", "generation_config.json: "},
        {"{\"temperature\":3}", "temperature is 3, must be a number from 0 to 2"},
        {"{\"temperature\":0.0005}", "temperature is 0.0005, must be 0 or at least 0.001"},
        {"{\"top_k\":1.5}", "top_k is 1.5, must be an integer"},
        {"{\"top_p\":\"high\"}", "top_p is \"high\""},
        {"{\"repetition_penalty\":0}", "repetition_penalty is 0, must be a number from 0.01 to 100"},
        {"{\"do_sample\":1}", "do_sample"},
        {"{\"eos_token_id\":300}", "eos_token_id names 300, must be a token id from 0 to 299"},
        {"{\"eos_token_id\":[1,\"x\"]}", "eos_token_id names \"x\""},
        {"{\"eos_token_id\":[1,2,3,4,5,6,7,8]}", "more than 8 ids"}, /* and the config's own */
        {"{\"eos_token_id\":[1,2,3,4,5,6,7]}", NULL},
    };
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        const char *dir = folder(bad[i][0]);
        test_checkpoint_open(dir, bad[i][1], bad[i][0]);
        if (bad[i][1]) test_checkpoint_open(dir, GENERATION_FILE, bad[i][0]);
    }
}

/* Such links are left of a cache whose files were taken away. */
TEST(generation_a_link_that_leads_nowhere_is_no_file_left_out) {
    const char *dir = folder(NULL);
    Chat chat;
    REQUIRE(symlink("nowhere", test_text("%s/" CHAT_TEMPLATE_FILE, dir)) == 0);
    chat_of_folder(&chat, dir);
    CHECK_MSG(strstr(chat.why, CHAT_TEMPLATE_FILE ": No such file"), "%s", chat.why);
    chat_close(&chat);
    REQUIRE(symlink("nowhere", test_text("%s/" GENERATION_FILE, dir)) == 0);
    test_checkpoint_open(dir, GENERATION_FILE ": No such file", "a link");
}

/* What the file may say a request may say too. */
TEST(generation_has_the_ranges_of_requests) {
    for (int i = 0; i < GENERATION_VALUES; i++) {
        const GenerationKey *key = &generation_keys[i];
        const Field *f = fields_find(&completion_fields, key->name);
        REQUIRE(f);
        CHECK_MSG(key->low == f->low && key->high == f->high && key->whole == (f->kind == FIELD_INT), "%s: %g to %g",
                  key->name, f->low, f->high);
        CHECK_MSG(key->fallback == strtod(f->absent, NULL), "%s: %s", key->name, f->absent);
    }
}
