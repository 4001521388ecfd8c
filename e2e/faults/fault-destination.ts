import type { DestinationSettings } from '../../operator/settings/settings.ts';
import type { Destination } from '../../operator/destinations/destination.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import type { HttpClient } from '../../operator/outbound/http-client.ts';
import type { StandIn } from './vendors/stand-in.ts';

/** A destination that the fault suite feeds: the real one. */
export interface FaultDestination {
  readonly settings: (url: string) => DestinationSettings;
  /** What the vendor should have of an event. */
  readonly contentOf: (event: UsageEvent) => string;
  /** Events of one lane must come in the ledger's order; a lane is a tenant unless this says otherwise. */
  readonly laneOf?: (event: UsageEvent) => string;
  /** Changes the real destination; `client` speaks to the stand-in. */
  readonly adapt?: (real: Destination, client: HttpClient) => Destination;
}

/** One that is fed against a stand-in of its vendor. */
export interface StoodInDestination extends FaultDestination {
  readonly startStandIn: () => Promise<StandIn>;
}
