#include "base/err.h"
#include "base/json/json_reader.h"
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

/* What a setting had in a run of a build that did not know it yet: its default. */
static const char *unknown_then(const Option *o) {
    return o->fallback ? o->fallback : o->kind == OPTION_SWITCH ? "false" : "";
}

static int restore_one(const CommandLine *line, const Option *o, const cJSON *saved, bool fixed, Err *err) {
    char text[OPTION_TEXT_BYTES];
    if (o->kind == OPTION_LIST) return restore_files(line, o, saved, err);
    if (saved && !cJSON_IsString(saved)) return err_set(err, "settings.%s is no text", o->name);
    const char *then = saved ? saved->valuestring : unknown_then(o);
    if (!command_line_given(line, o->name)) return saved && *then ? option_set(o, line->values, then, err) : 0;
    option_text(o, line->values, text);
    if (!fixed || !strcmp(text, then)) return 0;
    if (!*then) return err_set(err, "--%s is %s, the run to be resumed was started without it", o->name, text);
    return err_set(err, "--%s is %s, the run to be resumed has %s", o->name, text, then);
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
