import { randomBytes } from 'node:crypto';
import { newPortalKey } from '../world/portal.ts';

/** A text that must not be seen where it has no business. */
export interface Needle {
  /** What it is, for people. */
  readonly name: string;
  readonly text: string;
}

/** Every credential that is planted, by name; new ones for each start of the suite. */
export interface Secrets {
  readonly hostToken: string;
  readonly apiToken: string;
  readonly ingestToken: string;
  /** An ingest token that the hostile party holds. */
  readonly hostileIngestToken: string;
  /** The same for another tenant. */
  readonly rivalIngestToken: string;
  readonly webhookSecret: string;
  /** Of the user at the broker of Kafka. */
  readonly brokerPassword: string;
  /** What signs tokens of tenants: the base64 of its PEM. */
  readonly portalKey: string;
  readonly vendorKeys: Readonly<Record<string, string>>;
  readonly vendorWebhookSecrets: Readonly<Record<string, string>>;
  /** Of the honest tenant clusters' own APIs. */
  readonly ownTokens: Readonly<Record<string, string>>;
}

export function createSecrets(vendors: readonly string[], own: readonly string[]): Secrets {
  const made = (prefix: string): string => `${prefix}${randomBytes(18).toString('hex')}`;
  const each = (names: readonly string[], prefix: string): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, made(prefix)]));
  return {
    hostToken: made('host-'),
    apiToken: made('api-'),
    ingestToken: made('ingest-'),
    hostileIngestToken: made('hostile-ingest-'),
    rivalIngestToken: made('rival-ingest-'),
    webhookSecret: made('webhook-'),
    brokerPassword: made('broker-'),
    portalKey: newPortalKey(),
    vendorKeys: each(vendors, 'sk_test_'),
    vendorWebhookSecrets: each(vendors, 'whsec_'),
    ownTokens: each(own, 'own-'),
  };
}

/** All of them as needles: as they are, and in base64. */
export function needlesOf(secrets: Secrets): readonly Needle[] {
  const named = Object.entries(secrets).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'string'
      ? [{ name, text: value }]
      : Object.entries(value as Record<string, string>).map(([key, text]) => ({
          name: `${name}.${key}`,
          text,
        })),
  );
  return named.flatMap(({ name, text }) => [
    { name, text },
    { name: `${name} in base64`, text: inBase64(text) },
  ]);
}

/** The middle of it, which is the same wherever in a longer text it begins at a multiple of three bytes. */
function inBase64(text: string): string {
  return Buffer.from(text.slice(0, Math.floor(text.length / 3) * 3)).toString('base64');
}

/** Which needles a text holds, by name. */
export function foundIn(text: string, needles: readonly Needle[]): readonly string[] {
  return needles.filter((needle) => text.includes(needle.text)).map(({ name }) => name);
}
