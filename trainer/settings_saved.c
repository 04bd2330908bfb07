#include "base/err.h"
#include "base/json_look.h"
#include "trainer/settings_saved.h"

#include <string.h>

cJSON *settings_save(const Command *c, const void *values) {
    cJSON *saved = cJSON_CreateObject();
    for (const Option *o = c->options; o < c->options + c->n_options; o++) {
        char text[OPTION_TEXT_BYTES];
        if (o->tag == SETTING_FORGET) continue;
        if (o->kind == OPTION_LIST) {
            const OptionList *list = (const OptionList *)((const char *)values + o->offset);
            cJSON_AddItemToObject(saved, o->name, cJSON_CreateStringArray(list->items, list->n));
            continue;
        }
        option_text(o, values, text);
        cJSON_AddStringToObject(saved, o->name, text);
    }
    return saved;
}

static int restore_files(const CommandLine *line, const Option *o, const cJSON *saved, Err *err) {
    const cJSON *path;
    if (!cJSON_IsArray(saved)) return err_set(err, "settings.%s is no list of files", o->name);
    /* the same text may lie elsewhere now; its hash is compared */
    if (command_line_given(line, o->name)) return 0;
    cJSON_ArrayForEach(path, saved) {
        if (!cJSON_IsString(path)) return err_set(err, "settings.%s holds what is no path", o->name);
        if (option_set(o, line->values, path->valuestring, err)) return -1;
    }
    return 0;
}

static int restore_one(const CommandLine *line, const Option *o, const cJSON *saved, bool fixed, Err *err) {
    char text[OPTION_TEXT_BYTES];
    if (o->kind == OPTION_LIST) return restore_files(line, o, saved, err);
    if (!cJSON_IsString(saved)) return err_set(err, "settings.%s is missing or no text", o->name);
    if (!command_line_given(line, o->name))
        return *saved->valuestring ? option_set(o, line->values, saved->valuestring, err) : 0;
    option_text(o, line->values, text);
    if (!fixed || !strcmp(text, saved->valuestring)) return 0;
    if (!*saved->valuestring)
        return err_set(err, "--%s is %s, the run to be resumed was started without it", o->name, text);
    return err_set(err, "--%s is %s, the run to be resumed has %s", o->name, text, saved->valuestring);
}

int settings_restore(const CommandLine *line, const cJSON *saved, const char *free_setting, Err *err) {
    const Command *c = line->command;
    for (const Option *o = c->options; o < c->options + c->n_options; o++) {
        if (o->tag == SETTING_FORGET) continue;
        bool fixed = o->tag == SETTING_FIXED && !(free_setting && !strcmp(free_setting, o->name));
        if (restore_one(line, o, json_field(saved, o->name), fixed, err)) return -1;
    }
    return 0;
}
