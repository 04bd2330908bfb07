/* noised-train: the offline trainer. `noised-train COMMAND --help` lists the flags of a command. */
#include "base/err.h"
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "trainer/commands.h"
#include "weights/map_guard.h"

#include <string.h>

static const char usage[] = "usage: noised-train tokenizer --data FILE... --vocab-size N --out tokenizer.json\n"
                            "       noised-train pretrain  --config FILE|PRESET --data FILE... --out DIR [flags]\n"
                            "       noised-train eval      --model DIR --data FILE [flags]\n"
                            "       noised-train COMMAND --help\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"tokenizer", command_tokenizer}, {"pretrain", command_pretrain}, {"eval", command_eval}};

int main(int argc, char **argv) {
    Err err;
    runtime_tune(argv);
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return fputs(usage, stdout) < 0 ? EXIT_FAILED : EXIT_DONE;
    if (!strcmp(argv[1], "--version")) return puts("noised-train " NOISED_VERSION) < 0 ? EXIT_FAILED : EXIT_DONE;
    if (kernels_init(&err) || map_guard_install(&err)) return command_fail(argv[1], &err, EXIT_FAILED);
    for (size_t i = 0; i < COUNTOF(commands); i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 2, argv + 2);
    err_set(&err, "unknown command \"%.100s\"; there are tokenizer, pretrain and eval", argv[1]);
    return command_fail(NULL, &err, EXIT_USAGE);
}
