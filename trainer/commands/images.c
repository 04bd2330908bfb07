/* Images as texts: a line for each, its class and then its shades, which a language model can be trained on. */
#include "base/atomic_file.h"
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/commands/commands.h"
#include "trainer/tasks/examples_load.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Images {
    const char *data, *out;
    int pool, levels;
} Images;

/* The mean of pool x pool pixels, in 0..levels - 1. */
static int shade(const Images *o, const Examples *e, int image, int y, int x) {
    int sum = 0, area = o->pool * o->pool;
    for (int k = 0; k < area; k++) {
        int line = y * o->pool + k / o->pool, column = x * o->pool + k % o->pool;
        sum += e->pixels[((size_t)image * (size_t)e->height + (size_t)line) * (size_t)e->width + (size_t)column];
    }
    return sum * o->levels / (area * 256);
}

static int write_text(const Images *o, const Examples *e, const char *path, Err *err) {
    Buffer text = {0};
    for (int i = 0; i < e->n; i++) {
        buffer_print(&text, "[%s]", labels_name(&e->labels, e->label[i]));
        for (int y = 0; y < e->height / o->pool; y++)
            for (int x = 0; x < e->width / o->pool; x++) buffer_print(&text, " %d", shade(o, e, i, y, x));
        buffer_text(&text, "\n");
    }
    int rc = text.failed ? err_set(err, "no memory for the text of %d images", e->n)
                         : file_write(path, text.data, text.n, err);
    buffer_free(&text);
    return rc;
}

/* The shades are tokens 0 to levels - 1, the classes those behind them. */
static int write_tokenizer(const Images *o, const Examples *e, const char *path, Err *err) {
    enum { WORD = LABEL_BYTES + 16 };
    int n = o->levels + e->labels.n;
    char *words = xcalloc((size_t)n, WORD);
    const char **list = xcalloc((size_t)n, sizeof *list);
    for (int i = 0; i < n; i++) {
        char *word = words + i * WORD;
        if (i < o->levels)
            snprintf(word, WORD, "%d", i);
        else
            snprintf(word, WORD, "[%s]", labels_name(&e->labels, i - o->levels));
        list[i] = word;
    }
    Tokenizer *tok = tokenizer_of_words(list, n, err);
    int rc = tok ? tokenizer_json_save(tok, path, err) : -1;
    if (tok) tokenizer_free(tok);
    free(list);
    free(words);
    return rc;
}

/* Another's tokenizer, such as a run's, must not go. */
static int check_target(const char *text, const char *tokenizer, Err *err) {
    if (access(tokenizer, F_OK) || access(text, F_OK) == 0) return 0;
    return err_set(err, "--out has a %s that belongs to no images.txt: name another folder", tokenizer);
}

static int convert(const Images *o, const Examples *e, Err *err) {
    char text[PATH_BYTES], tokenizer[PATH_BYTES];
    if (e->kind != EXAMPLES_IMAGES) return err_set(err, "%s holds no images", o->data);
    if (e->channels != 1) return err_set(err, "%s: images of %d channels, must be 1", o->data, e->channels);
    if (e->height % o->pool || e->width % o->pool)
        return err_set(err, "--pool is %d, but the images are %d x %d", o->pool, e->height, e->width);
    for (int i = 0; i < e->labels.n; i++)
        if (strpbrk(labels_name(&e->labels, i), " \t\n\r"))
            return err_set(err, "label \"%s\" is no word", labels_name(&e->labels, i));
    if (path_join(text, o->out, "images.txt", err) || path_join(tokenizer, o->out, "tokenizer.json", err)) return -1;
    if (check_target(text, tokenizer, err)) return -1;
    if (folder_create(o->out, NULL, err) || write_text(o, e, text, err) || write_tokenizer(o, e, tokenizer, err))
        return -1;
    int rows = e->height / o->pool, columns = e->width / o->pool;
    printf("%s: %d images of %d x %d tokens, each behind one of %d classes: pretrain --window %d\n", text, e->n, rows,
           columns, e->labels.n, rows * columns + 1);
    return 0;
}

static int run(const CommandLine *line) {
    const Images *o = line->values;
    Examples e;
    Err err;
    if (examples_load(&e, o->data, FORMAT_AUTO, NULL, &err)) return command_fail(line, &err, EXIT_FAILED);
    int rc = convert(o, &e, &err);
    examples_free(&e);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(Images, member)
static const Option options[] = {
    {"data", OPTION_TEXT, AT(data), "FILE", .required = true,
     .help = "images with labels: IDX (train-images-idx3-ubyte, labels beside it) or safetensors"},
    {"out", OPTION_TEXT, AT(out), "DIR", .required = true, .help = "where images.txt and tokenizer.json go"},
    {"pool", OPTION_INT, AT(pool), "N", 1, 1 << 10, "2", .help = "a token is the mean of N x N pixels"},
    {"levels", OPTION_INT, AT(levels), "N", 2, 256, "16", .help = "shades of grey"},
};
const Command command_images = {
    .name = "images",
    .summary = "Writes images as texts for pretrain: a line each, its class and then its shades.",
    .details = "pretrain --config image-tokens-nano --tokenizer DIR/tokenizer.json --data DIR/images.txt reads them;\n"
               "with the --window that is printed, one is an image. What is no word of the tokenizer is black.",
    .size = sizeof(Images),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
