#include "base/team.h"
#include "tokenizer/bpe_train.h"
#include "trainer/commands/commands.h"
#include "trainer/stop.h"
#include "trainer/text/tokenize.h"

typedef struct Options {
    OptionList data;
    Tokenize tokenize;
    int threads;
} Options;

static int run(const CommandLine *line) {
    Options *o = line->values;
    Tokenize t = o->tokenize;
    Err err;
    t.files = o->data.items;
    t.n_files = o->data.n;
    t.stopped = stop_signal;
    if (t.tokenizer && t.vocab_size >= BPE_FIRST_MERGE) {
        err_set(&err, "--tokenizer %s and --vocab-size %d exclude each other", t.tokenizer, t.vocab_size);
        return command_fail(line, &err, EXIT_USAGE);
    }
    team_resize(o->threads);
    stop_install();
    int rc = tokenize(&t, &err);
    if (rc < 0) return command_fail(line, &err, EXIT_FAILED);
    return rc > 0 ? 128 + rc : EXIT_DONE;
}

#define AT(member) offsetof(Options, member)
static const Option options[] = {
    {"data", OPTION_LIST, AT(data), "FILE...", .required = true,
     .help = "texts, one a file or, in .jsonl, one a line; .gz and .zst are unpacked"},
    {"out", OPTION_TEXT, AT(tokenize.out), "DIR", .required = true, .help = "folder of ids, for pretrain's --data"},
    {"tokenizer", OPTION_TEXT, AT(tokenize.tokenizer), "FILE", .help = "tokenizer.json to use",
     .absent = "one is learnt from a sample"},
    {"vocab-size", OPTION_INT, AT(tokenize.vocab_size), "N", BPE_FIRST_MERGE, 1 << 20, .help = "tokens to learn"},
    {"val", OPTION_TEXT, AT(tokenize.val), "FILE|none", .help = "held-out text", .absent = "the last 5% of every file"},
    {"field", OPTION_TEXT, AT(tokenize.field), "NAME", .fallback = "text", .help = "of .jsonl: what holds the text"},
    {"separator", OPTION_TEXT, AT(tokenize.separator), "TOKEN", .fallback = BPE_END_OF_TEXT,
     .help = "special token between two texts, or none"},
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that encode; 0: all cores that this process may use"},
};
const Command command_tokenize = {
    .name = "tokenize",
    .summary = "Makes token ids of texts of any size, for pretrain to read from where they lie.",
    .details =
        "SIGINT, SIGTERM and SIGHUP save and end with status 130, 143 and 129; the same command goes on, after a kill "
        "too. A text is cut at spaces, so that the ids are those of the whole; one of more than 8 MiB is refused where "
        "the tokenizer has merges or added tokens that reach across spaces.",
    .size = sizeof(Options),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
