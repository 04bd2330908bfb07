/* get: the routes without a body: what the server tells of itself, of its model and of what it is doing. Each fills the
 * reply on the HTTP thread, from a version that it pins (versions.h) for as long as it writes. */
#ifndef NOISED_GET_H
#define NOISED_GET_H

#include "server/http/http.h"
#include "server/server.h"

void get_models(Server *s, const HttpRequest *request, HttpReply *reply);
void get_model(Server *s, const HttpRequest *request, HttpReply *reply);
void get_health(Server *s, const HttpRequest *request, HttpReply *reply);
void get_props(Server *s, const HttpRequest *request, HttpReply *reply);
void get_slots(Server *s, const HttpRequest *request, HttpReply *reply);
void get_streams(Server *s, const HttpRequest *request, HttpReply *reply);
void get_openapi(Server *s, const HttpRequest *request, HttpReply *reply);
void get_tokenizer_info(Server *s, const HttpRequest *request, HttpReply *reply);
void get_version(Server *s, const HttpRequest *request, HttpReply *reply);
void get_load(Server *s, const HttpRequest *request, HttpReply *reply);
void get_live(Server *s, const HttpRequest *request, HttpReply *reply);
void get_metrics(Server *s, const HttpRequest *request, HttpReply *reply);
void get_noise(Server *s, const HttpRequest *request, HttpReply *reply);
void get_page(Server *s, const HttpRequest *request, HttpReply *reply);

#endif
