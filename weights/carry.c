#include "weights/carry.h"

#include "base/atomic_file.h"
#include "base/buffer.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "tokenizer/chat_files.h"
#include "weights/config_json.h"
#include "weights/generation.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 26 };

const char *const carried_files[] = {TOKENIZER_CONFIG_FILE, "special_tokens_map.json", CHAT_TEMPLATE_FILE,
                                     GENERATION_FILE, NULL};

static bool is_for_texts(const char *name) {
    return !strcmp(name, CHAT_TEMPLATE_FILE) || !strcmp(name, GENERATION_FILE);
}

static bool is_carried(const char *name, const Config *c) {
    return text_is_in(name, carried_files) && (config_generates(c) || !is_for_texts(name));
}

/* The weights, the network and the tokens, whatever files they are in. */
static bool is_rewritten(const char *name) {
    static const char *const names[] = {"config.json", "tokenizer.json",    "vocab.json",
                                        "merges.txt",  "added_tokens.json", NULL};
    return text_is_in(name, names) || (text_begins(name, "model") && strstr(name, ".safetensors"));
}

static int copy(const char *from, const char *to, const char *name, Err *err) {
    char source[PATH_BYTES], target[PATH_BYTES];
    if (path_join(source, from, name, err) || path_join(target, to, name, err)) return -1;
    return file_copy(source, target, FILE_MAX, err);
}

static int is_no_dot(const struct dirent *e) { return strcmp(e->d_name, ".") && strcmp(e->d_name, ".."); }

static void say(FILE *said, const char *what, const char *from, const char *file, Buffer *names) {
    buffer_append(names, "", 1);
    if (said && !names->failed && names->n > 1) {
        text_make_printable(names->data);
        fprintf(said, "%s %s%s: %s\n", what, from, file, names->data);
    }
    buffer_free(names);
}

static void add(Buffer *names, const char *name) { buffer_print(names, "%s%s", names->n ? ", " : "", name); }

int carry_over(const char *from, const char *to, const Config *c, FILE *said, Err *err) {
    Buffer carried = {0}, left = {0}, keys = {0};
    struct dirent **entries;
    char path[PATH_BYTES];
    int rc = 0, n = scandir(from, &entries, is_no_dot, alphasort);
    if (n < 0) return err_set(err, "%s: %s", from, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (is_carried(name, c)) {
            if (rc == 0) rc = copy(from, to, name, err);
            add(&carried, name);
        } else if (!is_rewritten(name)) {
            add(&left, name);
        }
        free(entries[i]);
    }
    free(entries);
    if (rc == 0) rc = path_join(path, from, "config.json", err) ? -1 : config_json_unused(path, &keys, err);
    say(said, "carried over from", from, "", &carried);
    say(said, "left behind in", from, "", &left);
    say(said, "left out of", from, "/config.json", &keys);
    return rc;
}

void carry_withdraw(const char *to) {
    char path[PATH_BYTES];
    for (int i = 0; carried_files[i]; i++)
        if (path_join(path, to, carried_files[i], NULL) == 0) unlink(path);
}
