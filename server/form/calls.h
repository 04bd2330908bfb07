/* calls: answers that call functions, as chat templates write them. A call is its style's literal texts around a name
 * and arguments, an object that keeps to the function's schema:
 *
 *     mark open NAME middle {...} close      <tool_call>\n{"name": "NAME", "arguments": {...}}\n</tool_call> */
#ifndef NOISED_FORM_CALLS_H
#define NOISED_FORM_CALLS_H

#include "base/buffer.h"
#include "server/form/form.h"

typedef struct CallStyle {
    const char *mark;    /* ASCII; its first byte comes once in it */
    const char *open;    /* what is left up to the name */
    const char *middle;  /* between the name and the arguments */
    const char *close;   /* behind them */
    const char *between; /* of two calls; NULL: an answer has one */
    bool alone;          /* only an answer that begins with the mark calls; else it may come anywhere in one */
} CallStyle;
extern const CallStyle call_style_tags; /* Hermes', Qwen's: in <tool_call> */
extern const CallStyle call_style_json; /* Llama's from 3.1 on: a JSON object */

typedef struct CallTool {
    const char *name;        /* letters, digits, _ and - */
    const cJSON *parameters; /* NULL: there are none */
    Buffer *left;            /* NULL, or what cannot be kept is left out: its paths, each with a NUL */
} CallTool;

/* What an answer may be. */
typedef struct CallRule {
    bool text;    /* any without the mark, alone or in front of calls; else it begins with a call */
    bool several; /* where the style has that */
    int only;     /* the tool that is called; -1: any */
} CallRule;

/* NULL, and *e filled: of a schema by its tool ("[2].function.parameters.properties.a.not"). One that is no object's is
 * refused too, but {} is any object's. */
Form *form_of_calls(const CallStyle *style, const CallTool *tools, int n, CallRule rule, FormError *e);

#endif
