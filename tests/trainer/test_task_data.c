/* Labelled data as a network reads them: tokens, rows of words, pixels, batches. */
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/task_data.h"

#include <stdlib.h>
#include <string.h>

typedef struct World {
    Checkpoint c;
    Config cfg;
    Examples e;
    TaskData d;
    const char *dir;
    char path[300];
} World;

static bool open_world(World *w, TaskKind task, const char *name, const char *text, int context, bool truncate,
                       Err *err) {
    BUG_ON(checkpoint_open(&w->c, test_checkpoint(CHECKPOINT_SMALL), err));
    w->dir = test_dir();
    snprintf(w->path, sizeof w->path, "%s/%s", w->dir, name);
    test_write_text(w->dir, name, text);
    w->cfg = w->c.model.cfg;
    w->cfg.task = task;
    w->cfg.max_positions = context;
    BUG_ON(examples_load(&w->e, w->path, FORMAT_AUTO, NULL, err));
    return task_data_encode(&w->d, &w->e, w->c.tokenizer, &w->cfg, truncate, err) == 0;
}

static void close_world(World *w) {
    if (w->d.examples) task_data_free(&w->d);
    examples_free(&w->e);
    checkpoint_close(&w->c);
}

/* With a message that has both. */
static void check_refused(const char *name, const char *text, int context, bool truncate, const char *place,
                          const char *why) {
    World w = {0};
    Err err = {""};
    CHECK(!open_world(&w, TASK_TOKEN_CLASSIFICATION, name, text, context, truncate, &err));
    CHECK_MSG(strstr(err.msg, place) && strstr(err.msg, why), "%s", err.msg);
    w.d.examples = NULL;
    close_world(&w);
}

static int tokens_of(const World *w, const char *text, TokenList *list) {
    Err err;
    list->n = 0;
    BUG_ON(tokenizer_encode(w->c.tokenizer, text, strlen(text), true, list, &err));
    return (int)list->n;
}

TEST(task_data_of_texts) {
    World w = {0};
    TokenList want = {0};
    Err err;
    REQUIRE(open_world(&w, TASK_TEXT_CLASSIFICATION, "x.jsonl",
                       "{\"text\":\"the mill\",\"text_b\":\"the river\",\"label\":\"A\"}\n"
                       "{\"text\":\"a stone\",\"label\":\"B\"}\n",
                       64, false, &err));
    CHECK(tokens_of(&w, "the mill\nthe river", &want) == task_data_rows(&w.d, 0));
    CHECK(!memcmp(w.d.tokens.ids, want.ids, want.n * sizeof(int)));
    TaskBatch b = {0};
    task_batch_fill(&b, &w.d, (uint32_t[]){1, 0}, 2, (NoiseKey){.seed = 4, .scale = 1}, true);
    int n = tokens_of(&w, "a stone", &want);
    CHECK(b.n_units == 2 && b.targets[0] == 1 && b.targets[1] == 0 && !b.batch.want && b.batch.n_segments == 2);
    CHECK(b.batch.n == n + task_data_rows(&w.d, 0) && !memcmp(b.batch.tokens, want.ids, want.n * sizeof(int)));
    CHECK(b.segments[1].row0 == n && b.segments[1].noise.sequence == 1 && b.segments[1].noise.seed == 4);
    task_batch_free(&b);
    token_list_free(&want);
    close_world(&w);
}

TEST(task_data_of_sentences) {
    World w = {0};
    TokenList want = {0};
    Err err;
    REQUIRE(open_world(&w, TASK_TOKEN_CLASSIFICATION, "x.conll",
                       "miller\tO\n\nthe\tO\nriverstone\tB-X\n\xE4\xBD\xA0\xE5\xA5\xBD\tO\n", 64, false, &err));
    static const char *const up_to[] = {"the", "the riverstone", "the riverstone \xE4\xBD\xA0\xE5\xA5\xBD"};
    for (int i = 0; i < 3; i++) CHECK(w.d.row[1 + i] == tokens_of(&w, up_to[i], &want) - 1);
    CHECK(task_data_rows(&w.d, 1) == (int)want.n);
    TaskBatch b = {0};
    task_batch_fill(&b, &w.d, (uint32_t[]){0, 1}, 2, (NoiseKey){0}, false);
    int row0 = task_data_rows(&w.d, 0);
    CHECK(b.n_units == 4 && b.batch.n_want == 4 && b.batch.want[0] == row0 - 1);
    for (int i = 1; i < 4; i++) CHECK(b.batch.want[i] == row0 + w.d.row[i]);
    CHECK(b.targets[2] == labels_find(&w.e.labels, "B-X"));
    task_batch_free(&b);
    token_list_free(&want);
    close_world(&w);
}

TEST(task_data_cuts_only_when_asked) {
    static const char text[] = "miller\tO\n\nthe\tO\nriverstone\tB-X\nwheel\tO\n";
    World cut = {0};
    Err err = {""};
    check_refused("x.conll", text, 4, false, "x.conll:3: ", "max_position_embeddings is 4");
    REQUIRE(open_world(&cut, TASK_TOKEN_CLASSIFICATION, "x.conll",
                       "the\tO\nriverstone\tB-X\nwheel\tO\n\na\tO\nwheel\tB-X\n", 4, true, &err));
    TokenList list = {0};
    CHECK(tokens_of(&cut, "the", &list) <= 4 && tokens_of(&cut, "the riverstone", &list) > 4);
    int whole = 1 + (tokens_of(&cut, "a wheel", &list) <= 4);
    CHECK(task_data_rows(&cut.d, 0) == 4 && cut.d.truncated == 3 - whole && cut.d.cut_words == 4 - whole);
    CHECK(cut.e.n_units == 1 + whole && cut.e.first[1] == 1 && cut.e.first[2] == 1 + whole);
    CHECK(!strcmp(cut.e.text[0], "the") && !strcmp(cut.e.text[1], "a") && cut.e.line[1] == 5);
    CHECK(cut.d.row[1] == tokens_of(&cut, "a", &list) - 1);
    token_list_free(&list);
    close_world(&cut);
}

/* What is cut off is neither learnt nor scored: an example of which no word is left cannot be. */
TEST(task_data_needs_a_whole_word) {
    check_refused("x.conll", "a\tO\n\nriverstone\tB-X\nwheel\tO\n", 2, true,
                  "x.conll:3: ", "the first word does not end within the 2 tokens");
}

TEST(task_data_of_another_task) {
    check_refused("x.jsonl", "{\"text\":\"a\",\"label\":1}\n", 64, false, "x.jsonl ",
                  "holds texts, but task is token-classification");
}

TEST(task_data_of_images) {
    uint8_t pixels[] = {0, 255, 51, 0, 1, 2};
    int first[] = {0, 1}, label[] = {0};
    Examples e = {.kind = EXAMPLES_IMAGES,
                  .path = "x",
                  .n = 1,
                  .n_units = 1,
                  .first = first,
                  .label = label,
                  .pixels = pixels,
                  .channels = 1,
                  .height = 2,
                  .width = 3};
    Config c = {.task = TASK_IMAGE_CLASSIFICATION,
                .input = {.kind = INPUT_PATCHES, .height = 2, .width = 3, .channels = 1, .patch = 1}};
    TaskData d;
    Err err = {""};
    REQUIRE(task_data_encode(&d, &e, NULL, &c, false, &err) == 0);
    TaskBatch b = {0};
    task_batch_fill(&b, &d, (uint32_t[]){0}, 1, (NoiseKey){0}, false);
    CHECK(!b.batch.tokens && b.images[0] == -1 && b.images[1] == 1 && b.images[2] == 51 / 127.5f - 1);
    task_batch_free(&b);
    task_data_free(&d);
    c.input.height = 3;
    CHECK(task_data_encode(&d, &e, NULL, &c, false, &err) == -1);
    CHECK_MSG(strstr(err.msg, "x: images of [1,2,3], input.channels and input.image_size are [1,3,3]"), "%s", err.msg);
}
