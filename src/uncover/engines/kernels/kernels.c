/* All kernels of one precision and one instruction set. */
#include "members.h"
#include "moments.h"
#include "noise.h"
#include "pixels.h"
#include "pool.h"
#include "scores.h"
#include "summaries.h"
