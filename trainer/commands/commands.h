/* commands: what `noised-train COMMAND` runs. Results go to standard output. The exit status is that of
 * base/options/options.h, or 128 + n for a run that signal n has stopped (it is saved then). */
#ifndef NOISED_COMMANDS_H
#define NOISED_COMMANDS_H

#include "base/options/options.h"

extern const Command command_tokenizer, command_tokenize, command_pretrain, command_eval, command_sample, command_chat,
    command_plot, command_compare, command_sweep, command_presets, command_score, command_finetune, command_images;

/* Before program_main: command_sweep's table is that of command_pretrain with some rows of its own. */
void command_sweep_prepare(void);

#endif
