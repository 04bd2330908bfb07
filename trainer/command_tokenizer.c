#include "base/err.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/commands.h"
#include "trainer/texts.h"

#include <unistd.h>

/* A slip of the hand must not cost somebody a text. */
static int check_target(const char *out, Err *err) {
    Tokenizer *tok;
    Err why;
    if (access(out, F_OK)) return 0;
    if (tokenizer_json_load(&tok, out, &why))
        return err_set(err, "--out %.150s exists and is no tokenizer.json (%.250s): remove it or name another file",
                       out, why.msg);
    tokenizer_free(tok);
    return 0;
}

static int learn(const FileList *data, int vocab_size, const char *out, Err *err) {
    Texts texts;
    Tokenizer *tok = NULL;
    if (check_target(out, err) || texts_load(&texts, data->paths, data->n, VAL_NONE, err)) return -1;
    size_t bytes = 0;
    for (int i = 0; i < texts.n_train; i++) bytes += texts.train[i].n;
    int rc = bpe_train(&tok, &(BpeCorpus){.texts = texts.train, .n = (size_t)texts.n_train}, vocab_size, err);
    if (rc == 0) rc = tokenizer_json_save(tok, out, err);
    if (rc == 0) printf("%s: %d tokens from %zu bytes\n", out, tokenizer_vocab_size(tok), bytes);
    if (tok) tokenizer_free(tok);
    texts_free(&texts);
    return rc;
}

int command_tokenizer(int argc, char **argv) {
    FileList data = {0};
    const char *out = NULL;
    int64_t vocab_size = 0;
    Flag flags[] = {
        {.name = "data", .kind = FLAG_FILES, .value = &data, .hint = "FILE...", .help = "texts to learn from"},
        {.name = "vocab-size",
         .kind = FLAG_INTEGER,
         .value = &vocab_size,
         .low = BPE_FIRST_MERGE,
         .high = 1 << 20,
         .hint = "N",
         .help = "tokens to learn: <|endoftext|>, 256 bytes, merges"},
        {.name = "out", .kind = FLAG_TEXT, .value = &out, .hint = "FILE", .help = "tokenizer.json to write"},
    };
    const int n = (int)COUNTOF(flags);
    Err err;
    int status = EXIT_DONE, parsed = flags_parse(flags, n, argc, argv, &err);
    if (parsed == 1)
        flags_print_help(flags, n, "usage: noised-train tokenizer --data FILE... --vocab-size N --out FILE");
    else if (parsed || flags_require(flags, n, "data", &err) || flags_require(flags, n, "vocab-size", &err) ||
             flags_require(flags, n, "out", &err))
        status = command_fail("tokenizer", &err, EXIT_USAGE);
    else if (learn(&data, (int)vocab_size, out, &err))
        status = command_fail("tokenizer", &err, EXIT_FAILED);
    flags_free(flags, n);
    return status;
}
