import type { DestinationSettings } from '../../operator/settings/settings.ts';
import type { Destination } from '../../operator/destinations/destination.ts';
import { override } from '../../operator/model/override.ts';
import { encodeEvent } from '../../operator/model/event.ts';
import { Secret } from '../../operator/model/secret.ts';
import type { HttpClient } from '../../operator/outbound/http-client.ts';
import { LAGO_API_KEY, lagoContent, startLago } from './vendors/lago.ts';
import {
  METRONOME_RATE_CARD,
  METRONOME_TOKEN,
  metronomeContent,
  startMetronome,
} from './vendors/metronome.ts';
import {
  startStripe,
  STRIPE_API_KEY,
  STRIPE_SPLIT_BY,
  stripeContent,
  stripeLane,
} from './vendors/stripe.ts';
import type { FaultDestination, StoodInDestination } from './fault-destination.ts';
import { KAFKA } from './kafka/destination.ts';
import { startWebhookReceiver } from './vendors/webhook-receiver.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Everything that plans draw from; a further vendor is one more line. */
export const DESTINATIONS = {
  webhook: {
    settings: (url) => webhookSettings('webhook', url),
    startStandIn: () => startWebhookReceiver({}),
    contentOf: encodeEvent,
  },
  // A receiver like the card payment provider: it keeps an id for a day only, but can be asked.
  forgetful: {
    settings: (url) => webhookSettings('forgetful', url),
    startStandIn: () => startWebhookReceiver({ idMemoryMs: DAY_MS }),
    contentOf: encodeEvent,
    adapt: askable,
  },
  lago: {
    settings: (url) => lagoSettings('lago', url),
    startStandIn: () => startLago('postgres'),
    contentOf: lagoContent,
  },
  'lago-clickhouse': {
    settings: (url) => lagoSettings('lago-clickhouse', url),
    startStandIn: () => startLago('clickhouse'),
    contentOf: lagoContent,
  },
  metronome: {
    settings: metronomeSettings,
    startStandIn: startMetronome,
    contentOf: metronomeContent,
  },
  stripe: {
    settings: stripeSettings,
    startStandIn: startStripe,
    contentOf: stripeContent,
    laneOf: stripeLane,
  },
} as const satisfies Readonly<Record<string, StoodInDestination>>;

export type StoodInName = keyof typeof DESTINATIONS;
/** Kafka has no stand-in: brokers of it run, where the suite is asked for them (kafka/brokers.ts). */
export type DestinationName = StoodInName | 'kafka';

export const DESTINATION_NAMES = Object.keys(DESTINATIONS) as readonly StoodInName[];

export function faultDestination(name: DestinationName): FaultDestination {
  return name === 'kafka' ? KAFKA : DESTINATIONS[name];
}

export function stoodInDestination(name: StoodInName): StoodInDestination {
  return DESTINATIONS[name];
}

function webhookSettings(name: string, url: string): DestinationSettings {
  const webhook = {
    url: `${url}/hook`,
    secrets: [new Secret('whsec_faults')],
    headers: new Map(),
    source: 'faults',
  };
  return { name, suspend: false, startFrom: 'earliest', type: 'webhook', options: webhook };
}

function lagoSettings(name: string, url: string): DestinationSettings {
  const apiKey = new Secret(LAGO_API_KEY);
  const lago = { url, apiKey, planCode: 'standard', currency: 'EUR' };
  return { name, suspend: false, startFrom: 'earliest', type: 'lago', options: lago };
}

function metronomeSettings(url: string): DestinationSettings {
  const apiToken = new Secret(METRONOME_TOKEN);
  const metronome = { url, apiToken, rateCard: METRONOME_RATE_CARD, currency: 'USD' };
  return {
    name: 'metronome',
    suspend: false,
    startFrom: 'earliest',
    type: 'metronome',
    options: metronome,
  };
}

function stripeSettings(url: string): DestinationSettings {
  const stripe = {
    url,
    apiKey: new Secret(STRIPE_API_KEY),
    apiVersion: '2026-09-30.endive',
    splitMetersBy: STRIPE_SPLIT_BY,
    autoSubscribe: true,
    billingDay: 1,
    cancelOnRemove: true,
    maxRequestsPerSecond: 0,
    planCode: 'standard',
    currency: 'EUR',
  };
  return { name: 'stripe', suspend: false, startFrom: 'earliest', type: 'stripe', options: stripe };
}

/** The webhook with a vendor that forgets ids, and that says which events it has. */
function askable(real: Destination, client: HttpClient): Destination {
  return override<Destination>(real, {
    get limits() {
      return { ...real.limits, idMemoryMs: DAY_MS };
    },
    verify: async (events, signal) => {
      const answer = await client.request({
        method: 'POST',
        path: '/known',
        body: JSON.stringify(events.map(({ id }) => id)),
        signal,
      });
      if (answer.kind === 'failed') return { kind: 'retry', reason: answer.reason };
      if (answer.status !== 200) return { kind: 'retry', reason: `status ${answer.status}` };
      return { kind: 'verified', known: new Set(JSON.parse(answer.body) as readonly string[]) };
    },
  });
}
