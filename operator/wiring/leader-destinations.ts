import { fencedDestinations } from '../delivery/fenced-destinations.ts';
import { type CreateDestination, createDestinationRegistry } from '../destinations/registry.ts';
import { fencedOutbound } from '../outbound/fenced-outbound.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { tracedDestinations } from './otlp.ts';

/**
 * Destinations of a process that leads: while `mayAct` is false they begin no call with an effect, and send no request of
 * a call that has begun (docs/delivery.md#one-process-delivers).
 */
export function leaderDestinations(
  tools: {
    readonly clock: Clock;
    readonly logger: Logger;
    readonly outbound: Outbound;
    readonly tracer?: Tracer | undefined;
  },
  mayAct: () => boolean,
): CreateDestination {
  const { clock, logger, tracer } = tools;
  const outbound = fencedOutbound(tools.outbound, mayAct);
  const create = fencedDestinations(createDestinationRegistry({ clock, logger, outbound }), mayAct);
  return tracer === undefined ? create : tracedDestinations(create, tracer);
}
