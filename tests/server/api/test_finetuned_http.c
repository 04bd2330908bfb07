/* What `noised-train finetune` has made, served: the daemon's probabilities are those of the trainer's evaluation, bit
 * for bit. */
#include "base/memory.h"
#include "model/shape.h"
#include "server/api/pooling/probabilities.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/pictures.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/task_data.h"
#include "weights/config_json.h"
#include "weights/presets.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tuned {
    const char *dir;
    Checkpoint checkpoint;
    Examples examples;
    TaskData data;
    float *logits; /* [n_units, classes] */
} Tuned;

/* What the checkpoint makes of its data, all at once. */
static void compute(Tuned *t) {
    uint32_t all[] = {0, 1, 2};
    TaskBatch b = {0};
    Tape tape;
    tape_init(&tape, false);
    task_batch_fill(&b, &t->data, all, t->examples.n, (NoiseKey){.seed = 9, .scale = 1}, false);
    const Mat *x = model_forward(&t->checkpoint.model, &tape, &b.batch, NULL);
    size_t bytes = (size_t)x->n * (size_t)x->d * sizeof(float);
    t->logits = memcpy(xmalloc(bytes), x->x, bytes);
    tape_free(&tape);
    task_batch_free(&b);
}

/* Trains the network that `from` gives on the file `name` of t's folder for an epoch; at most three examples. */
static bool tune(Tuned *t, const char *name, const char *from) {
    Err err;
    trainer_done(
        test_text("finetune %s --train %s/%s --epochs 1 --lr 1e-2 --batch 2 --out %s/run", from, t->dir, name, t->dir));
    if (checkpoint_open(&t->checkpoint, test_text("%s/run", t->dir), &err)) return false;
    const Config *c = &t->checkpoint.model.cfg;
    if (examples_load(&t->examples, test_text("%s/%s", t->dir, name), FORMAT_AUTO, &t->checkpoint.labels, &err))
        return false;
    if (task_data_encode(&t->data, &t->examples, t->checkpoint.tokenizer, c, false, &err)) return false;
    compute(t);
    return true;
}

enum { WORDS = 7, WORD_DIM = 3 }; /* the unknown one among them */

/* The network of a preset on word vectors; NULL: a checkpoint with subwords; or the option that names another. */
static bool tune_text(Tuned *t, const char *name, const char *text, const char *preset) {
    static const char vectors[] = "the 1 0 2\nriver 0 1 0\nmill 0.5 -1 0\nword 2 2 1\nmiller 0 0.25 1\nsaid 1 1 1\n";
    char from[400];
    *t = (Tuned){.dir = test_dir()};
    test_write_text(t->dir, name, text);
    test_write_text(t->dir, "vectors.txt", vectors);
    if (preset && *preset == '-')
        snprintf(from, sizeof from, "%s", preset);
    else if (preset)
        snprintf(from, sizeof from, "--config %s --vectors %s/vectors.txt", preset, t->dir);
    else
        snprintf(from, sizeof from, "--init %s", test_checkpoint(CHECKPOINT_SMALL));
    return tune(t, name, from);
}

static bool tune_images(Tuned *t, const void *images, size_t n_images, const void *labels, size_t n_labels) {
    *t = (Tuned){.dir = test_dir()};
    test_write_file(test_text("%s/my-images-idx3-ubyte", t->dir), images, n_images);
    test_write_file(test_text("%s/my-labels-idx1-ubyte", t->dir), labels, n_labels);
    return tune(t, "my-images-idx3-ubyte", test_text("--init %s", test_checkpoint(CHECKPOINT_IMAGES)));
}

static void tuned_close(Tuned *t) {
    task_data_free(&t->data);
    examples_free(&t->examples);
    checkpoint_close(&t->checkpoint);
    free(t->logits);
}

/* The probabilities of a unit, as the daemon makes them of logits. */
static Probabilities probabilities(const Tuned *t, int unit) {
    Probabilities p;
    int n = t->checkpoint.model.cfg.n_labels;
    const float *logits = t->logits + (size_t)unit * (size_t)n;
    BUG_ON(probabilities_init(&p, n));
    probabilities_of(&p, &logits, 1);
    return p;
}

static bool serve(Daemon *d, const Tuned *t) { return daemon_start_at(d, test_text("%s/run", t->dir), NULL); }

static void check_texts(const char *preset) {
    Tuned t;
    Daemon d;
    REQUIRE(tune_text(&t, "x.jsonl",
                      "{\"text\":\"the river and the mill\",\"label\":\"B\"}\n"
                      "{\"text\":\"a word\",\"label\":\"A\"}\n{\"text\":\"stone\",\"label\":\"C\"}\n",
                      preset));
    REQUIRE(serve(&d, &t));
    Answer a =
        http_post(&d, "/v1/classify", "{\"input\":[\"the river and the mill\",\"a word\",\"stone\"],\"noise_seed\":9}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int i = 0; i < 3 && a.status == 200; i++) {
        Probabilities p = probabilities(&t, i);
        CHECK(!strcmp(json_text(a.json, test_text("data.%d.label", i)),
                      labels_name(&t.checkpoint.labels, probabilities_best(&p))));
        for (int k = 0; k < 3; k++) {
            CHECK((float)json_number(a.json, test_text("data.%d.probs.%d", i, k)) == p.mean[k]);
        }
        probabilities_free(&p);
    }
    daemon_stop(&d);
    tuned_close(&t);
}

TEST(finetuned_texts_are_served) {
    check_texts(NULL);
    check_texts("trec-narrowshallow");
}

/* A tokenizer may want a token in front of a text and one behind it, whose row the head then reads. */
TEST(finetuned_texts_between_tokens_are_served) {
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    test_tokens_around(dir, "<|endoftext|>", "<|endoftext|>");
    check_texts(test_text("--init %s", dir));
}

/* White space is Unicode's; between nothing but that is no word; and as many words as a body holds cost no more than
 * their bytes. */
static void check_white_space(const Daemon *d) {
    enum { LETTERS = 60000 };
    Answer a = http_post(d, "/v1/tag", "{\"input\":\"\\u00a0 miller\\u2003said\\u3000\"}");
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "data.0.tokens")) == 2, "%s", a.body);
    CHECK(json_number(a.json, "data.0.tokens.0.start") == 2 && json_number(a.json, "data.0.tokens.1.start") == 9);
    CHECK(!strcmp(json_text(a.json, "data.0.tokens.1.text"), "said"));
    a = http_post(d, "/v1/tag", "{\"input\":\"\\u00a0\"}");
    answer_check_error(&a, 400, "input", "has no words");
    char *body = xmalloc(LETTERS + 32);
    size_t n = (size_t)sprintf(body, "{\"truncate\":true,\"input\":\"");
    for (int i = 0; i < LETTERS; i += 2) memcpy(body + n, "a ", 2), n += 2;
    strcpy(body + n, "\"}");
    a = http_post(d, "/v1/tag", body);
    CHECK_MSG(a.status == 200, "%d %.200s", a.status, a.body);
    free(body);
}

static void check_tags(const char *preset) {
    Tuned t;
    Daemon d;
    REQUIRE(tune_text(&t, "x.conll",
                      "the\tO\nriver\tB-W\nGr\xC3\xBC\xC3\x9F"
                      "e\tO\n\nmiller\tB-P\nsaid\tO\n",
                      preset));
    REQUIRE(serve(&d, &t));
    Answer a = http_post(&d, "/v1/tag",
                         "{\"input\":[\"the river Gr\xC3\xBC\xC3\x9F"
                         "e\",\"miller said\"],\"noise_seed\":9}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int unit = 0; unit < 5 && a.status == 200; unit++) {
        Probabilities p = probabilities(&t, unit);
        int best = probabilities_best(&p);
        const cJSON *word = json_at(a.json, test_text("data.%d.tokens.%d", unit / 3, unit % 3));
        CHECK_MSG(word && !strcmp(json_text(word, "text"), t.examples.text[unit]) &&
                      !strcmp(json_text(word, "label"), labels_name(&t.checkpoint.labels, best)) &&
                      (float)json_number(word, "score") == p.mean[best],
                  "word %d of %s", unit, a.body);
        probabilities_free(&p);
    }
    check_white_space(&d);
    daemon_stop(&d);
    tuned_close(&t);
}

TEST(finetuned_tags_are_served) {
    check_tags(NULL);
    check_tags("ner-shallow");
}

/* Every path with a GET, and the noise of each of its attentions: rows x heads. */
static void check_questions(const char *preset, bool noisy) {
    Tuned t;
    Daemon d;
    Config c;
    int n = 0;
    const char *dir = test_dir();
    REQUIRE(preset_config(&c, preset, NULL) == 0);
    if (noisy) c.noise.scope = NOISE_HEAD;
    c.vocab_size = WORDS;
    c.input.size = WORD_DIM;
    bool tags = c.task == TASK_TOKEN_CLASSIFICATION;
    Labels labels = tags ? (Labels){3, 10, "O\0B-W\0B-P"} : (Labels){2, 4, "A\0B"};
    c.n_labels = labels.n;
    char *config = config_json_print(&c, &labels);
    test_write_text(dir, "config.json", config);
    const char *path = test_text("%s/config.json", dir);
    const char *text = tags ? "the\tO\nriver\tB-W\n\nmiller\tB-P\nsaid\tO\n"
                            : "{\"text\":\"the river\",\"label\":\"B\"}\n{\"text\":\"a word\",\"label\":\"A\"}\n";
    REQUIRE(tune_text(&t, tags ? "x.conll" : "x.jsonl", text, path));
    REQUIRE(serve(&d, &t));
    Answer api = http_get(&d, "/openapi.json"), noise = http_get(&d, "/noise");
    const cJSON *at, *paths = cJSON_GetObjectItem(api.json, "paths"), *sigma = json_at(noise.json, "sigma");
    cJSON_ArrayForEach(at, paths) {
        if (!cJSON_GetObjectItem(at, "get")) continue;
        Answer a = http_get(&d, at->string);
        CHECK_MSG(a.status >= 200 && a.status < 500, "%s: %s: %d %s", preset, at->string, a.status, a.body);
        n++;
    }
    CHECK(n > 5 && cJSON_GetArraySize(sigma) == (noisy ? c.n_layers + 2 * c.decoder_layers : 0));
    cJSON_ArrayForEach(at, sigma) CHECK(cJSON_GetArraySize(at) == c.n_heads);
    CHECK(daemon_stop(&d) == 0);
    tuned_close(&t);
    free(config);
}

TEST(finetuned_networks_answer_every_get) {
    check_questions("ner-shallow", false);
    check_questions("trec-narrowshallow", false);
    check_questions("trec-narrowshallow", true);
}

/* Two pictures of 6 x 4 by the network of CHECKPOINT_IMAGES. */
TEST(finetuned_images_are_served) {
    enum { PIXELS = 24 };
    unsigned char images[16 + 2 * PIXELS] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6};
    unsigned char labels[10] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    char *body;
    size_t size;
    Tuned t;
    Daemon d;
    for (int i = 0; i < 2 * PIXELS; i++) images[16 + i] = (unsigned char)(i * i * 7);
    REQUIRE(tune_images(&t, images, sizeof images, labels, sizeof labels));
    REQUIRE(serve(&d, &t));
    FILE *f = open_memstream(&body, &size);
    for (int i = 0; i < 2; i++) {
        char *url = test_picture_url(images + 16 + i * PIXELS, 6, 4, PNG_FORMAT_GRAY, 0);
        fprintf(f, "%s{\"image\":\"%s\"}", i ? "," : "{\"noise_seed\":9,\"input\":[", url);
        free(url);
    }
    fputs("]}", f);
    BUG_ON(fclose(f));
    Answer a = http_post(&d, "/v1/classify", body);
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int i = 0; i < 2 && a.status == 200; i++) {
        Probabilities p = probabilities(&t, i);
        CHECK(!strcmp(json_text(a.json, test_text("data.%d.label", i)),
                      labels_name(&t.checkpoint.labels, probabilities_best(&p))));
        for (int k = 0; k < p.n; k++) {
            CHECK((float)json_number(a.json, test_text("data.%d.probs.%d", i, k)) == p.mean[k]);
        }
        probabilities_free(&p);
    }
    free(body);
    daemon_stop(&d);
    tuned_close(&t);
}
