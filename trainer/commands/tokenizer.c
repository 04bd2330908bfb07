#include "base/err.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/commands/commands.h"
#include "trainer/text/texts.h"

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

typedef struct Learn {
    OptionList data;
    const char *out;
    int vocab_size;
} Learn;

static int learn(const Learn *l, Err *err) {
    Texts texts;
    Tokenizer *tok = NULL;
    if (check_target(l->out, err) || texts_load(&texts, l->data.items, l->data.n, VAL_NONE, err)) return -1;
    size_t bytes = 0;
    for (int i = 0; i < texts.n_train; i++) bytes += texts.train[i].n;
    int rc = bpe_train(&tok, &(BpeCorpus){.texts = texts.train, .n = (size_t)texts.n_train}, l->vocab_size, err);
    if (rc == 0) rc = tokenizer_json_save(tok, l->out, err);
    if (rc == 0) printf("%s: %d tokens from %zu bytes\n", l->out, tokenizer_vocab_size(tok), bytes);
    if (tok) tokenizer_free(tok);
    texts_free(&texts);
    return rc;
}

static int run(const CommandLine *line) {
    Err err;
    return learn(line->values, &err) ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(Learn, member)
static const Option options[] = {
    {"data", OPTION_LIST, AT(data), "FILE...", .required = true, .help = "texts to learn from"},
    {"vocab-size", OPTION_INT, AT(vocab_size), "N", BPE_FIRST_MERGE, 1 << 20, .required = true,
     .help = "tokens to learn: <|endoftext|>, 256 bytes, merges"},
    {"out", OPTION_TEXT, AT(out), "FILE", .required = true, .help = "tokenizer.json to write"},
};
const Command command_tokenizer = {
    .name = "tokenizer",
    .summary = "Learns a tokenizer from texts.",
    .size = sizeof(Learn),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
