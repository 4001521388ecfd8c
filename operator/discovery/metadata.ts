import { invalid, type Parsed, type Parser } from '../settings/parsers/parser.ts';
import type { CustomerIdKey } from '../settings/configurable-destination.ts';
import { boolean, choice, currency, matching, text } from '../settings/parsers/scalars.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { quote } from '../model/quote.ts';
import type { CustomerIds, SubscriptionIds } from '../model/tenant.ts';
import type { Metadata } from './views.ts';

/**
 * The metadata keys under the label prefix (docs/explanation/discovery.md#metadata-keys), with the
 * parsers of their values.
 */
const KEYS = {
  tenant: text(128),
  'display-name': text(256),
  email: matching(
    /^(?=.{3,254}$)[^\s@]+@[^\s@]+$/,
    'an e-mail address',
    'not an e-mail address',
    'give an e-mail address',
  ),
  project: text(256),
  'tenant-class': text(128),
  plan: text(128),
  currency: currency(),
  'cost-center': text(256),
  exclude: boolean(),
  'node-mode': choice('shared', 'private'),
  machines: boolean(),
} as const;

type MetadataKey = keyof typeof KEYS;
type CustomerIdValues = {
  readonly [Key in CustomerIdKey['key'] | `${string}-subscription-id`]?: string;
};
export type MetadataValues = CustomerIdValues & {
  readonly [Key in MetadataKey]?: (typeof KEYS)[Key] extends Parser<infer T> ? T : never;
};

/** The keys that pin a tenant's customer ids, by type of destination. */
export type CustomerIdKeys = ReadonlyMap<DestinationType, CustomerIdKey>;

/** An object with metadata, and its name in problems. */
export interface MetadataSource {
  /** `Namespace tenant-a`. */
  readonly name: string;
  readonly metadata: Metadata;
  /**
   * Set if others than the platform's administrators can edit the object. Then only harmless keys
   * count; this text is the reason for ignoring the others.
   */
  readonly untrusted?: string;
}

/** Keys that affect neither the payer, nor the amount, nor alerts: a name for people. */
const HARMLESS: readonly string[] = ['display-name'];

/**
 * The metadata of a tenant cluster from several objects. For each key the first valid value wins;
 * in one object the annotation comes before the label.
 */
export function readMetadata(
  labelPrefix: string,
  sources: readonly MetadataSource[],
  customerIdKeys: CustomerIdKeys,
): {
  readonly values: MetadataValues;
  /** One line for each invalid or untrusted value. It is ignored, and the next source is read. */
  readonly problems: readonly string[];
} {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [key, parser] of entries(customerIdKeys)) {
    const label = `${labelPrefix}/${key}`;
    for (const { where, input, untrusted } of inputs(label, sources)) {
      if (untrusted !== undefined && !HARMLESS.includes(key)) {
        problems.push(`${where} ${label}: ignored: ${untrusted}`);
        continue;
      }
      const parsed = parser.parse(input);
      if (parsed.kind === 'value') {
        values[key] = parsed.value;
        break;
      }
      problems.push(`${where} ${label}: ${parsed.what}: ${quote(input)}; ${parsed.fix}`);
    }
  }
  // Each value was made by the parser of its own key.
  return { values: values as MetadataValues, problems };
}

/** Keys that TENANT_CLUSTERS_FILE has a separate field for, or that make no sense there. */
const NOT_EXTERNAL: readonly string[] = [
  'tenant',
  'display-name',
  'project',
  'node-mode',
  'machines',
];

/** Parses one value of `metadata` in TENANT_CLUSTERS_FILE. An undefined input is not text. */
export function parseMetadata(
  key: string,
  input: string | undefined,
  customerIdKeys: CustomerIdKeys,
): Parsed<unknown> {
  const known = entries(customerIdKeys).filter(([name]) => !NOT_EXTERNAL.includes(name));
  const [, parser] = known.find(([name]) => name === key) ?? [];
  if (parser === undefined) {
    return invalid('unknown key', `use ${known.map(([name]) => name).join(', ')}`, key);
  }
  return input === undefined ? invalid('not text', `give ${parser.accepts}`) : parser.parse(input);
}

/** The customer ids that metadata pin; undefined when they pin none. */
export function customerIdsOf(
  values: MetadataValues,
  customerIdKeys: CustomerIdKeys,
): CustomerIds | undefined {
  const ids = [...customerIdKeys].flatMap(([type, { key }]) => {
    const id = values[key];
    return id === undefined ? [] : [[type, id] as const];
  });
  return ids.length === 0 ? undefined : Object.fromEntries(ids);
}

/** The subscriptions that metadata pin; undefined when they pin none. */
export function subscriptionIdsOf(
  values: MetadataValues,
  customerIdKeys: CustomerIdKeys,
): SubscriptionIds | undefined {
  const ids = [...customerIdKeys].flatMap(([type, { subscription }]) => {
    const id = subscription && values[subscription.key];
    return id === undefined ? [] : [[type, id] as const];
  });
  return ids.length === 0 ? undefined : Object.fromEntries(ids);
}

function entries(
  customerIdKeys: CustomerIdKeys,
): readonly (readonly [key: string, parser: Parser<unknown>])[] {
  const ids = [...customerIdKeys.values()].flatMap(({ key, parser, subscription }) => [
    [key, parser] as const,
    ...(subscription === undefined ? [] : [[subscription.key, subscription.parser] as const]),
  ]);
  return Object.entries(KEYS).flatMap(([key, parser]) =>
    key === 'currency' ? [[key, parser] as const, ...ids] : [[key, parser] as const],
  );
}

function inputs(label: string, sources: readonly MetadataSource[]) {
  return sources.flatMap(({ name, metadata, untrusted }) =>
    [
      { where: `${name}: annotation`, input: metadata.annotations[label]?.trim() ?? '', untrusted },
      { where: `${name}: label`, input: metadata.labels[label]?.trim() ?? '', untrusted },
    ].filter(({ input }) => input !== ''),
  );
}
