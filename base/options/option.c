#include "base/err.h"
#include "base/memory.h"
#include "base/options/option.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Digits, or what people write for them where it is a whole number: 1e3, 1.5k, 2M. */
static bool read_integer(const char *text, long long *v) {
    char *end;
    bool digits = text[0] == '-' ? text[1] >= '0' && text[1] <= '9' : text[0] >= '0' && text[0] <= '9';
    errno = 0;
    *v = strtoll(text, &end, 10);
    if (!digits || !*end) return digits;
    if (text[strspn(text, "-0123456789.ekM")]) return false;
    double x = strtod(text, &end);
    x *= *end == 'k' ? 1e3 : *end == 'M' ? 1e6 : 1;
    end += *end == 'k' || *end == 'M';
    if (*end || x != floor(x) || fabs(x) > 9007199254740992.0) return false; /* 2^53 */
    *v = (long long)x;
    return true;
}

static int set_integer(const Option *o, void *value, const char *text, Err *err) {
    long long v;
    if (!read_integer(text, &v))
        return err_set(err, "--%s: \"%s\" is not an integer (1000, 1e3 and 1k are)", o->name, text);
    if (errno || (double)v < o->low || (double)v > o->high)
        return err_set(err, "--%s is %s, must be %.0f to %.0f", o->name, text, o->low, o->high);
    if (o->kind == OPTION_INT)
        *(int *)value = (int)v;
    else
        *(int64_t *)value = v;
    return 0;
}

static int parse_real(const Option *o, const char *text, const char *stop, double *v, Err *err) {
    char *end;
    *v = strtod(text, &end);
    if (end == text || end != stop || strchr(" \t\n\v\f\r", text[0]))
        return err_set(err, "--%s: \"%.*s\" is not a number", o->name, (int)(stop - text), text);
    if (!(*v >= o->low && *v <= o->high))
        return err_set(err, "--%s is %.*s, must be %g to %g", o->name, (int)(stop - text), text, o->low, o->high);
    return 0;
}

static int set_pair(const Option *o, double *value, const char *text, Err *err) {
    const char *comma = strchr(text, ',');
    double v[2];
    if (!comma) return err_set(err, "--%s: \"%s\" is not two numbers with a comma between", o->name, text);
    if (parse_real(o, text, comma, &v[0], err) || parse_real(o, comma + 1, text + strlen(text), &v[1], err)) return -1;
    memcpy(value, v, sizeof v);
    return 0;
}

/* Which of the choices the text is; -1 when it is none. */
static int find_choice(const Option *o, const char *text, Err *err) {
    char all[256] = "";
    for (int i = 0; o->choices[i]; i++) {
        if (!strcmp(o->choices[i], text)) return i;
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", o->choices[i]);
    }
    return err_set(err, "--%s is \"%s\", must be one of %s", o->name, text, all);
}

static int set_choice(const Option *o, int *value, const char *text, Err *err) {
    int found = find_choice(o, text, err);
    if (found >= 0) *value = found;
    return MIN(found, 0);
}

static int set_text(const Option *o, void *value, const char *text, Err *err) {
    const char *dashes = option_is_operand(o) ? "" : "--";
    if (!*text && !o->may_be_empty) return err_set(err, "%s%s is empty", dashes, o->name);
    size_t most = o->kind == OPTION_TEXT && o->high > 0 ? (size_t)o->high : OPTION_TEXT_BYTES - 1;
    if (strlen(text) > most) return err_set(err, "%s%s is longer than %zu bytes", dashes, o->name, most);
    if (o->choices && find_choice(o, text, err) < 0) return -1;
    if (!option_is_list(o)) {
        *(const char **)value = text;
        return 0;
    }
    OptionList *list = value;
    list->items = xrealloc(list->items, (size_t)(list->n + 1) * sizeof *list->items);
    list->items[list->n++] = text;
    return 0;
}

static void set_none(const Option *o, void *value) {
    if (o->kind == OPTION_TEXT) *(const char **)value = NULL;
    if (o->kind == OPTION_INT) *(int *)value = (int)o->low - 1;
    if (o->kind == OPTION_INT64) *(int64_t *)value = (int64_t)o->low - 1;
    if (o->kind == OPTION_REAL) *(double *)value = NAN;
}

int option_set(const Option *o, void *values, const char *text, Err *err) {
    void *value = (char *)values + o->offset;
    if (!text) return set_none(o, value), 0;
    switch (o->kind) {
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_OPERAND:
    case OPTION_OPERANDS:
        return set_text(o, value, text, err);
    case OPTION_INT:
    case OPTION_INT64:
        return set_integer(o, value, text, err);
    case OPTION_REAL:
        return parse_real(o, text, text + strlen(text), value, err);
    case OPTION_PAIR:
        return set_pair(o, value, text, err);
    case OPTION_CHOICE:
        return set_choice(o, value, text, err);
    case OPTION_SWITCH:
        break;
    }
    *(bool *)value = !strcmp(text, "true");
    return 0;
}

/* The shortest decimal that reads back as v; "" for NaN. */
static size_t print_real(double v, char *out, size_t size) {
    *out = 0;
    for (int digits = 6; digits <= 17 && !isnan(v); digits++) {
        snprintf(out, size, "%.*g", digits, v);
        if (strtod(out, NULL) == v) break;
    }
    return strlen(out);
}

void option_text(const Option *o, const void *values, char out[OPTION_TEXT_BYTES]) {
    const void *value = (const char *)values + o->offset;
    const char *text;
    int64_t integer;
    size_t used;
    switch (o->kind) {
    case OPTION_TEXT:
    case OPTION_OPERAND:
        text = *(const char *const *)value;
        snprintf(out, OPTION_TEXT_BYTES, "%s", text ? text : "");
        return;
    case OPTION_INT:
    case OPTION_INT64:
        integer = o->kind == OPTION_INT ? *(const int *)value : *(const int64_t *)value;
        snprintf(out, OPTION_TEXT_BYTES, "%lld", (long long)integer);
        if ((double)integer < o->low) *out = 0;
        return;
    case OPTION_REAL:
        print_real(*(const double *)value, out, OPTION_TEXT_BYTES);
        return;
    case OPTION_PAIR:
        used = print_real(((const double *)value)[0], out, OPTION_TEXT_BYTES);
        out[used++] = ',';
        print_real(((const double *)value)[1], out + used, OPTION_TEXT_BYTES - used);
        return;
    case OPTION_CHOICE:
        snprintf(out, OPTION_TEXT_BYTES, "%s", o->choices[*(const int *)value]);
        return;
    case OPTION_SWITCH:
        snprintf(out, OPTION_TEXT_BYTES, "%s", *(const bool *)value ? "true" : "false");
        return;
    case OPTION_LIST:
    case OPTION_OPERANDS:
        break;
    }
    BUG_ON(option_is_list(o));
}
