#include "server/form/schema.h"

#include "base/json/json_reader.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static void show_path(const SchemaPath *p, char *out, size_t size) {
    char inner[sizeof((FormError *)0)->path];
    if (!p) return;
    show_path(p->up, inner, sizeof inner);
    if (!p->up) inner[0] = 0;
    if (p->name)
        snprintf(out, size, "%s%s%s", inner, inner[0] ? "." : "", p->name);
    else
        snprintf(out, size, "%s[%d]", inner, p->index);
}

int schema_fail(SchemaReader *r, const SchemaPath *path, const char *fmt, ...) {
    va_list args;
    r->failed_in = path ? path->up : NULL;
    r->failed = path ? path->name : NULL;
    r->error->path[0] = 0;
    if (path) show_path(path, r->error->path, sizeof r->error->path);
    va_start(args, fmt);
    vsnprintf(r->error->message, sizeof r->error->message, fmt, args);
    va_end(args);
    return -1;
}

bool schema_leave_out(SchemaReader *r, const cJSON *keyword) {
    if (!r->left || r->error->no_memory || r->form->failed || r->n_skipped == SCHEMA_SKIPPED) return false;
    buffer_append(r->left, r->error->path, strlen(r->error->path) + 1);
    *r->error = (FormError){.path = ""};
    r->skipped[r->n_skipped++] = keyword;
    return true;
}

/* ---- keywords ---- */

bool schema_skips(const SchemaReader *r, const cJSON *keyword) {
    for (int i = 0; i < r->n_skipped; i++)
        if (r->skipped[i] == keyword) return true;
    return false;
}

const cJSON *schema_keyword(const SchemaReader *r, const cJSON *schema, const char *name) {
    const cJSON *item = json_field(schema, name);
    return item && schema_skips(r, item) ? NULL : item;
}

int schema_count(SchemaReader *r, const cJSON *schema, const char *keyword, int fallback, const SchemaPath *path,
                 int *out) {
    enum { MOST = 65535 };
    const cJSON *item = schema_keyword(r, schema, keyword);
    int64_t value;
    *out = fallback;
    if (!item) return 0;
    if (!json_integer(item, 0, MOST, &value))
        return schema_fail(r, &(SchemaPath){path, keyword, 0}, "must be an integer between 0 and %d, not %s", MOST,
                           show_json(item).text);
    *out = (int)value;
    return 0;
}

/* ---- references ---- */

/* A step of a JSON pointer: up to the next /, with ~0, ~1 and %XX read; false when it is too long. */
static bool read_step(const char **at, char *out, size_t size) {
    size_t n = 0;
    for (; **at && **at != '/'; (*at)++) {
        char c = **at, digits[3] = {0};
        if (c == '%' && strspn(*at + 1, "0123456789abcdefABCDEF") >= 2) {
            memcpy(digits, *at + 1, 2);
            c = (char)strtol(digits, NULL, 16);
            *at += 2;
        } else if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = *++*at == '0' ? '~' : '/';
        }
        if (n + 1 == size) return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

const cJSON *schema_member(const cJSON *object, const char *name, int *looks) {
    const cJSON *x = cJSON_IsObject(object) ? object->child : NULL;
    for (++*looks; x && strcmp(x->string, name); x = x->next) ++*looks;
    return x;
}

static const cJSON *step_into(const cJSON *v, const char *name, int *looks) {
    if (!cJSON_IsArray(v)) return schema_member(v, name, looks);
    *looks += cJSON_GetArraySize(v);
    return name[0] && !name[strspn(name, "0123456789")] ? cJSON_GetArrayItem(v, atoi(name)) : NULL;
}

const cJSON *schema_follow(SchemaReader *r, const cJSON *ref, const SchemaPath *path, int *looks) {
    SchemaPath here = {path, "$ref", 0};
    const char *at = cJSON_GetStringValue(ref);
    const cJSON *found = r->root;
    char step[256];
    if (!at || *at != '#' || (at[1] && at[1] != '/')) {
        schema_fail(r, &here, "must be a path in the same schema (\"#/...\"), not %s", show_json(ref).text);
        return NULL;
    }
    for (at++; found && *at == '/';) {
        at++;
        found = read_step(&at, step, sizeof step) ? step_into(found, step, looks) : NULL;
    }
    if (!found) schema_fail(r, &here, "leads nowhere: there is no %s", show_json(ref).text);
    return found;
}

/* ---- objects ---- */

bool schema_requires(const cJSON *schema, const char *name, int *looks) {
    const cJSON *item;
    cJSON_ArrayForEach(item, schema_member(schema, "required", looks)) {
        ++*looks;
        if (json_is_text(item, name)) return true;
    }
    return false;
}
