/* settings_saved: the options of a run as its folder keeps them, and what --resume makes of them. For every command
 * whose table of options has a SettingMemory as the `tag` of each. */
#ifndef NOISED_SETTINGS_SAVED_H
#define NOISED_SETTINGS_SAVED_H

#include "base/err.h"
#include "base/options/options.h"

#include <cjson/cJSON.h>

/* What --resume does with a setting: nothing; takes the saved value unless another is given; insists on the saved one.
 */
typedef enum SettingMemory { SETTING_FORGET, SETTING_REMEMBER, SETTING_FIXED } SettingMemory;

/* {"lr":"0.001", "data":["a.txt"], ...}: every setting that is not forgotten, as text that parses to it. */
cJSON *settings_save(const Command *c, const void *values);

/* The other way: settings not given take their saved value; a fixed one given with another value is an error naming
 * both, except the one called `free_setting` (may be NULL). One that is not among the saved had its default, in a build
 * that did not know it. `saved` must outlive the settings. */
int settings_restore(const CommandLine *line, const cJSON *saved, const char *free_setting, Err *err);

#endif
