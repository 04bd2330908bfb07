/* image: a picture of a request, {"image":"data:image/png;base64,..."}, as the network reads it: [channels, height,
 * width], a byte b as b / 127.5 - 1, as the trainer reads its data. Colours become grey for a network of one channel,
 * and transparent pixels black. */
#ifndef NOISED_API_IMAGE_H
#define NOISED_API_IMAGE_H

#include "model/config.h"
#include "server/api/error.h"

/* *pixels is the caller's. Nothing is decoded of a picture of another size than the network's. */
int api_image_read(const char *url, const Config *c, const char *param, float **pixels, ApiError *e);

#endif
