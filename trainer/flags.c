#include "trainer/flags.h"

#include "base/err.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024 };

static Flag *find(Flag *flags, int n, const char *name, size_t length) {
    for (int i = 0; i < n; i++)
        if (strlen(flags[i].name) == length && !memcmp(flags[i].name, name, length)) return &flags[i];
    return NULL;
}

/* ---- one value ---- */

static int set_integer(const Flag *f, const char *text, Err *err) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    bool digits = text[0] == '-' ? text[1] >= '0' && text[1] <= '9' : text[0] >= '0' && text[0] <= '9';
    if (!digits || *end) return err_set(err, "--%s: \"%s\" is not an integer", f->name, text);
    if (errno || (double)v < f->low || (double)v > f->high)
        return err_set(err, "--%s is %s, must be %.0f to %.0f", f->name, text, f->low, f->high);
    *(int64_t *)f->value = v;
    return 0;
}

static int parse_real(const Flag *f, const char *text, const char *stop, double *v, Err *err) {
    char *end;
    *v = strtod(text, &end);
    if (end == text || end != stop || strchr(" \t\n\v\f\r", text[0]))
        return err_set(err, "--%s: \"%.*s\" is not a number", f->name, (int)(stop - text), text);
    if (!(*v >= f->low && *v <= f->high))
        return err_set(err, "--%s is %.*s, must be %g to %g", f->name, (int)(stop - text), text, f->low, f->high);
    return 0;
}

static int set_pair(const Flag *f, const char *text, Err *err) {
    const char *comma = strchr(text, ',');
    double v[2];
    if (!comma) return err_set(err, "--%s: \"%s\" is not two numbers with a comma between", f->name, text);
    if (parse_real(f, text, comma, &v[0], err) || parse_real(f, comma + 1, text + strlen(text), &v[1], err)) return -1;
    memcpy(f->value, v, sizeof v);
    return 0;
}

static int set_choice(const Flag *f, const char *text, Err *err) {
    char all[256] = "";
    for (int i = 0; f->choices[i]; i++) {
        if (!strcmp(f->choices[i], text)) {
            *(int *)f->value = i;
            return 0;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", f->choices[i]);
    }
    return err_set(err, "--%s is \"%s\", must be one of %s", f->name, text, all);
}

static int set_text(const Flag *f, const char *text, Err *err) {
    if (!*text) return err_set(err, "--%s is empty", f->name);
    if (strlen(text) >= TEXT_MAX) return err_set(err, "--%s is longer than %d bytes", f->name, TEXT_MAX - 1);
    if (f->kind == FLAG_TEXT) {
        *(const char **)f->value = text;
        return 0;
    }
    FileList *list = f->value;
    list->paths = xrealloc(list->paths, (size_t)(list->n + 1) * sizeof *list->paths);
    list->paths[list->n++] = text;
    return 0;
}

static int flag_set(const Flag *f, const char *text, Err *err) {
    switch (f->kind) {
    case FLAG_TEXT:
    case FLAG_FILES:
        return set_text(f, text, err);
    case FLAG_INTEGER:
        return set_integer(f, text, err);
    case FLAG_REAL:
        return parse_real(f, text, text + strlen(text), f->value, err);
    case FLAG_PAIR:
        return set_pair(f, text, err);
    case FLAG_CHOICE:
        return set_choice(f, text, err);
    case FLAG_SWITCH:
        break;
    }
    *(bool *)f->value = !strcmp(text, "true");
    return 0;
}

/* The shortest decimal that reads back as v. */
static void print_real(double v, char *out, size_t size) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

/* The value as flag_set would read it; "" is no value at all, as a default below `low` or NaN stands for. Files have no
 * such form. */
static void flag_text(const Flag *f, char out[TEXT_MAX]) {
    const char *text;
    size_t used;
    switch (f->kind) {
    case FLAG_TEXT:
        text = *(const char *const *)f->value;
        snprintf(out, TEXT_MAX, "%s", text ? text : "");
        return;
    case FLAG_INTEGER:
        snprintf(out, TEXT_MAX, "%lld", (long long)*(int64_t *)f->value);
        if ((double)*(int64_t *)f->value < f->low) *out = 0;
        return;
    case FLAG_REAL:
        print_real(*(double *)f->value, out, TEXT_MAX);
        if (isnan(*(double *)f->value)) *out = 0;
        return;
    case FLAG_PAIR:
        print_real(((double *)f->value)[0], out, TEXT_MAX);
        used = strlen(out);
        out[used++] = ',';
        print_real(((double *)f->value)[1], out + used, TEXT_MAX - used);
        return;
    case FLAG_CHOICE:
        snprintf(out, TEXT_MAX, "%s", f->choices[*(int *)f->value]);
        return;
    case FLAG_SWITCH:
        snprintf(out, TEXT_MAX, "%s", *(bool *)f->value ? "true" : "false");
        return;
    case FLAG_FILES:
        break;
    }
    BUG_ON(f->kind == FLAG_FILES);
}

/* ---- the command line ---- */

static int parse_one(Flag *flags, int n, int argc, char **argv, int *at, Err *err) {
    const char *word = argv[(*at)++];
    if (strncmp(word, "--", 2) || !word[2]) return err_set(err, "\"%s\" is not a flag; see --help", word);
    size_t length = strcspn(word + 2, "=");
    Flag *f = find(flags, n, word + 2, length);
    if (!f) return err_set(err, "unknown flag %.*s; see --help", (int)length + 2, word);
    if (f->given) return err_set(err, "--%s is given twice", f->name);
    f->given = true;
    const char *value = word[length + 2] == '=' ? word + length + 3 : NULL;
    if (f->kind == FLAG_SWITCH) {
        if (value) return err_set(err, "--%s takes no value, got \"%s\"", f->name, value);
        return flag_set(f, "true", err);
    }
    if (!value && (*at == argc || !strncmp(argv[*at], "--", 2)))
        return err_set(err, "--%s needs a value (%s)", f->name, f->hint);
    if (flag_set(f, value ? value : argv[(*at)++], err)) return -1;
    while (f->kind == FLAG_FILES && *at < argc && strncmp(argv[*at], "--", 2))
        if (flag_set(f, argv[(*at)++], err)) return -1;
    return 0;
}

int flags_parse(Flag *flags, int n, int argc, char **argv, Err *err) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return 1;
    for (int at = 0; at < argc;)
        if (parse_one(flags, n, argc, argv, &at, err)) return -1;
    return 0;
}

static void print_default(const Flag *f) {
    char text[TEXT_MAX];
    if (f->kind == FLAG_FILES || f->kind == FLAG_SWITCH) return;
    flag_text(f, text);
    if (*text) printf(" (default %s)", text);
}

void flags_print_help(const Flag *flags, int n, const char *usage) {
    printf("%s\n", usage);
    for (int i = 0; i < n; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, *flags[i].hint ? " " : "", flags[i].hint);
        printf("  %-34s %s", left, flags[i].help);
        print_default(&flags[i]);
        printf("\n");
    }
}

bool flags_given(const Flag *flags, int n, const char *name) {
    const Flag *f = find((Flag *)flags, n, name, strlen(name));
    BUG_ON(!f);
    return f->given;
}

int flags_require(const Flag *flags, int n, const char *name, Err *err) {
    return flags_given(flags, n, name) ? 0 : err_set(err, "--%s is missing; see --help", name);
}

void flags_free(Flag *flags, int n) {
    for (int i = 0; i < n; i++)
        if (flags[i].kind == FLAG_FILES) free(((FileList *)flags[i].value)->paths);
}

/* ---- resume ---- */

cJSON *flags_save(const Flag *flags, int n) {
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < n; i++) {
        const Flag *f = &flags[i];
        char text[TEXT_MAX];
        if (f->memory == FLAG_FORGET) continue;
        if (f->kind == FLAG_FILES) {
            const FileList *list = f->value;
            cJSON_AddItemToObject(o, f->name, cJSON_CreateStringArray(list->paths, list->n));
            continue;
        }
        flag_text(f, text);
        cJSON_AddStringToObject(o, f->name, text);
    }
    return o;
}

static int restore_files(Flag *f, const cJSON *saved, Err *err) {
    const cJSON *path;
    if (!cJSON_IsArray(saved)) return err_set(err, "settings.%s is no list of files", f->name);
    if (f->given) return 0; /* the same text may lie elsewhere now; its hash is compared */
    cJSON_ArrayForEach(path, saved) {
        if (!cJSON_IsString(path)) return err_set(err, "settings.%s holds what is no path", f->name);
        if (flag_set(f, path->valuestring, err)) return -1;
    }
    return 0;
}

static int restore_one(Flag *f, const cJSON *saved, bool fixed, Err *err) {
    char text[TEXT_MAX];
    if (f->kind == FLAG_FILES) return restore_files(f, saved, err);
    if (!cJSON_IsString(saved)) return err_set(err, "settings.%s is missing or no text", f->name);
    if (!f->given) return *saved->valuestring ? flag_set(f, saved->valuestring, err) : 0;
    flag_text(f, text);
    if (!fixed || !strcmp(text, saved->valuestring)) return 0;
    if (!*saved->valuestring)
        return err_set(err, "--%s is %s, the run to be resumed was started without it", f->name, text);
    return err_set(err, "--%s is %s, the run to be resumed has %s", f->name, text, saved->valuestring);
}

int flags_restore(Flag *flags, int n, const cJSON *saved, const char *free_flag, Err *err) {
    for (int i = 0; i < n; i++) {
        Flag *f = &flags[i];
        if (f->memory == FLAG_FORGET) continue;
        bool fixed = f->memory == FLAG_FIXED && !(free_flag && !strcmp(free_flag, f->name));
        if (restore_one(f, cJSON_GetObjectItemCaseSensitive(saved, f->name), fixed, err)) return -1;
    }
    return 0;
}
