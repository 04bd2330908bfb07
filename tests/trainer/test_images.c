/* Images as texts, and a model that draws them. */
#include "base/err.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { IMAGES = 60, SIDE = 28 };

/* Image i is of class i % 10: all of one shade, brighter by class, but for its first pixel. */
static const char *write_images(const char *dir) {
    const char *path = test_text("%s/small-images-idx3-ubyte", dir),
               *labels = test_text("%s/small-labels-idx1-ubyte", dir);
    FILE *f = fopen(path, "wb"), *g = fopen(labels, "wb");
    const unsigned char head[16] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    const unsigned char label_head[8] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    BUG_ON(!f || !g || fwrite(head, 1, 16, f) != 16 || fwrite(label_head, 1, 8, g) != 8);
    for (int i = 0; i < IMAGES; i++) {
        putc(i % 10, g);
        for (int k = 0; k < SIDE * SIDE; k++) putc(k ? 25 * (i % 10) : 255, f);
    }
    BUG_ON(fclose(f) || fclose(g));
    return path;
}

static void check_run(const char *args, int status, const char *output) {
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == status && strstr(r.output, output), "%s\n    gave %d, wanted %d: %s", args, r.status, status,
              r.output);
    free(r.output);
}

TEST(images_become_texts) {
    const char *dir = test_dir();
    const char *images = write_images(dir);
    char args[2048];
    size_t n;
    snprintf(args, sizeof args, "images --data %s --out %s/a", images, dir);
    check_run(args, 0, "60 images of 14 x 14 tokens, each behind one of 10 classes: pretrain --window 197");
    const char *path = test_text("%s/a/images.txt", dir);
    char *text = test_read_file(path, &n);
    /* the first token of image 1 is (255 + 3 x 25) / 4 = 82.5 of 256, in sixteenths 5; the others are 25 */
    REQUIRE(text && !strncmp(text, "[0] 3 0 0 0", 11));
    const char *second = strchr(text, '\n') + 1;
    CHECK_MSG(!strncmp(second, "[1] 5 1 1 1", 11), "%.20s", second);
    const char *file = test_text("%s/a/tokenizer.json", dir);
    Tokenizer *tok;
    Err err;
    TokenList list = {0};
    REQUIRE(tokenizer_json_load(&tok, file, &err) == 0);
    CHECK(tokenizer_vocab_size(tok) == 26 &&
          tokenizer_encode(tok, second, strcspn(second, "\n"), false, &list, &err) == 0);
    CHECK(list.n == 197 && list.ids[0] == 17 && list.ids[1] == 5 && list.ids[196] == 1);
    token_list_free(&list);
    tokenizer_free(tok);
    snprintf(args, sizeof args, "images --data %s --out %s/b --pool 3", images, dir);
    check_run(args, 1, "--pool is 3, but the images are 28 x 28");
    snprintf(args, sizeof args, "%s/mine", dir);
    BUG_ON(mkdir(args, 0777) < 0);
    strcat(args, "/tokenizer.json");
    test_write_file(args, "{}", 2);
    snprintf(args, sizeof args, "images --data %s --out %s/mine", images, dir);
    check_run(args, 1, "mine/tokenizer.json that belongs to no images.txt: name another folder");
    snprintf(args, sizeof args, "images --data %s --out %s/b", path, dir);
    check_run(args, 1, "images.txt");
    free(text);
}

/* A class determines all but nothing here, so a little training tells the shades. */
TEST(images_are_learnt) {
    const char *dir = test_dir();
    const char *images = write_images(dir);
    check_run(test_text("images --data %s --out %s/a", images, dir), 0, "60 images");
    check_run(
        test_text(
            "pretrain --config image-tokens-nano --tokenizer %s/a/tokenizer.json --data %s/a/images.txt --out %s/run "
            "--steps 40 --batch 2 --lr 1e-2 --warmup 4",
            dir, dir, dir),
        0, "windows of 197");
    ChildResult r = trainer_run(test_text("eval --model %s/run --data %s/a/images.txt", dir, dir));
    const char *loss = strstr(r.output, "\"loss\":");
    CHECK_MSG(loss && atof(loss + 7) < 2, "%s", r.output);
    CHECK_MSG(strstr(r.output, "\"tokens\":11760,"), "60 images of 196 shades: %s", r.output);
    free(r.output);
}

/* The loss of training on the first of two images, the second of this class. */
static double first_loss(const char *dir, const char *text, int class) {
    const char *path = test_text("%s/two.txt", dir);
    char args[2048];
    const char *log = test_text("%s/two-%d/log.jsonl", dir, class);
    const char *second = strchr(text, '\n') + 1;
    int n = (int)(second - text), m = (int)(strchr(second, '\n') + 1 - strchr(second, ']'));
    n = snprintf(args, sizeof args, "%.*s[%d%.*s", n, text, class, m, strchr(second, ']'));
    BUG_ON(n >= (int)sizeof args);
    test_write_file(path, args, (size_t)n);
    snprintf(args, sizeof args,
             "pretrain --config image-tokens-nano --tokenizer %s/a/tokenizer.json --data %s --val none --out %s/two-%d "
             "--steps 1 --batch 1",
             dir, path, dir, class);
    check_run(args, 0, "windows of 197");
    char *said = test_read_file(log, NULL);
    const char *loss = said ? strstr(said, "\"loss\":") : NULL;
    double value = loss ? atof(loss + 7) : -1;
    free(said);
    return value;
}

TEST(images_do_not_tell_the_next_class) {
    const char *dir = test_dir();
    const char *images = write_images(dir);
    check_run(test_text("images --data %s --out %s/a", images, dir), 0, "60 images");
    const char *path = test_text("%s/a/images.txt", dir);
    char *text = test_read_file(path, NULL);
    double loss = text ? first_loss(dir, text, 3) : -1;
    CHECK_MSG(loss > 0 && text && loss == first_loss(dir, text, 5), "%.9g", loss);
    free(text);
}
