/* noised-train: the offline trainer. */
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "trainer/commands/commands.h"
#include "weights/map_guard.h"

static int start(Err *err) { return kernels_init(err) || map_guard_install(err) ? -1 : 0; }

static const Program program = {
    .name = "noised-train",
    .summary = "learn a tokenizer, train a small language model, evaluate one",
    .commands = (const Command *const[]){&command_tokenizer, &command_tokenize, &command_pretrain, &command_finetune,
                                         &command_eval, &command_score, &command_sample, &command_chat, &command_plot,
                                         &command_sweep, &command_compare, &command_presets, &command_images, NULL},
    .statuses = "129, 130 and 143: stopped by SIGHUP, SIGINT or SIGTERM; the run is saved.",
    .start = start,
};

int main(int argc, char **argv) {
    runtime_tune(argv);
    command_sweep_prepare();
    return program_main(&program, argc, argv);
}
