/* fields: a JSON object read by a table of its legal fields, one row each. What the table does not name, has the
 * wrong type or lies outside the range is an error that names the field; null means absent, and what is absent takes
 * the table's fallback. docs/api.md is printed from the same rows (schema.h). */
#ifndef NOISED_API_FIELDS_H
#define NOISED_API_FIELDS_H

#include "base/json/json.h"
#include "server/api/error.h"

typedef struct OptionalSeed {
    bool given;
    uint64_t value;
} OptionalSeed;

typedef struct FieldReader {
    const char *name;    /* of the field being read */
    void *out;           /* the struct being filled */
    const void *context; /* whatever the FIELD_OTHER readers need */
    ApiError *error;
    Buffer *ignored; /* fields_leave_aside: FIELD_NEUTRALs at other values and unknown fields; NULL: both are refused */
} FieldReader;

typedef struct Field Field;
typedef struct FieldList {
    const Field *rows;
    size_t n;
    const struct FieldList *also; /* where a name is looked for next; NULL: nowhere */
    const char *either[3];        /* names of which exactly one must be there, or NULL behind the last */
    bool more;                    /* beside one of those the route reads fields of another list too */
    /* What the fields say together, called after an object was read into `out`; NULL: nothing more. */
    int (*finish)(void *out, const void *context, ApiError *e);
} FieldList;

/* What a FIELD_OTHER takes, for the documents. */
typedef enum TypeKind {
    TYPE_INTEGER,
    TYPE_NUMBER,
    TYPE_BOOLEAN,
    TYPE_STRING,
    TYPE_ARRAY,
    TYPE_MAP,
    TYPE_ONE_OF
} TypeKind;

typedef struct Type {
    TypeKind kind;
    double low, high;  /* of a number; of a string's bytes, an array's or a map's elements: high 0 for no bound */
    const char *limit; /* what stands for `high`, an option of the daemon or a size of the model; or NULL */
    const struct Type *of[4]; /* the first: of an element; of TYPE_ONE_OF: the alternatives, up to a NULL */
    const char *schema;       /* the JSON schema, where it says more than all this; or NULL */
} Type;

typedef enum FieldKind {
    FIELD_INT,     /* int */
    FIELD_FLOAT,   /* float */
    FIELD_BOOL,    /* bool */
    FIELD_SEED,    /* OptionalSeed, 0..SEED_MAX */
    FIELD_FOLDED,  /* OptionalSeed, any int64_t: -1 is none, what is no seed is folded into one */
    FIELD_TEXT,    /* const char *, borrowed from the JSON */
    FIELD_OBJECT,  /* `fields`, of the same struct */
    FIELD_OTHER,   /* `type`, read by `read`; without one a const cJSON *, kept for the rules between fields */
    FIELD_NEUTRAL, /* goes nowhere: it may have the values of `neutral` */
    FIELD_NONE     /* of a list that is looked at next, but not of this one */
} FieldKind;

struct Field {
    const char *name;
    FieldKind kind;
    size_t offset;                                        /* of the value in the struct that is filled */
    double low, high;                                     /* FIELD_INT and FIELD_FLOAT, both inclusive */
    const char *limit;                                    /* as in Type; checked where the value is used */
    double fallback;                                      /* FIELD_INT, FIELD_FLOAT, FIELD_BOOL: when it is absent */
    const char *absent;                                   /* what absence means where `fallback` does not say it */
    int (*read)(const FieldReader *r, const cJSON *item); /* FIELD_OTHER, or NULL */
    const Type *type;                                     /* FIELD_OTHER */
    const char *neutral;                                  /* FIELD_NEUTRAL: a JSON array; NULL: any value */
    const FieldList *fields;                              /* FIELD_OBJECT; the value is a bool: whether it is there */
    const char *help;                                     /* one sentence or two, Markdown */
};

/* The row of that name, here or in the lists that are looked at next; NULL when there is none. */
const Field *fields_find(const FieldList *list, const char *name);

/* The field whose value counts when f is absent, which names it in `absent`; NULL when there is none. */
const Field *field_same(const FieldList *list, const Field *f);

/* The JSON value that stands for absence; where that is another field's, by its name in `absent`, the value of that
 * one. False, and nothing printed, when there is none. */
bool field_put_default(Buffer *b, const char *key, const FieldList *list, const Field *f);

/* r->name: NULL, or of the field that the object is, which then stands in front of its fields' names. */
int fields_read(const FieldReader *r, const cJSON *object, const FieldList *list);

/* Adds a name, which may hold any bytes, to "a, b", a header's value; -1 with e filled when no memory is left. A list
 * that grows beyond all use ends in "...". */
int fields_leave_aside(Buffer *ignored, const char *name, ApiError *e);

/* Members of an object of the field `name` that are neither null nor known (a list that ends in NULL): a 400 that names
 * the first, or all are left aside where `ignored` is not NULL. -1 with e filled. */
int fields_check_members(const cJSON *object, const char *name, const char *const *known, Buffer *ignored, ApiError *e);

/* "stop must be <what>, not <the value>". */
int field_fail(const FieldReader *r, const cJSON *item, const char *what);

/* The body of a request as a JSON object; NULL with e filled otherwise. The caller frees. */
cJSON *fields_parse_body(const char *body, size_t n, int max_depth, int max_values, ApiError *e);

#endif
