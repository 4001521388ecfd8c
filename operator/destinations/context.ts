import type { Outbound } from '../outbound/outbound.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What every destination is built with besides its own settings. */
export interface DestinationContext {
  /** The only way to the network. */
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly logger: Logger;
}
