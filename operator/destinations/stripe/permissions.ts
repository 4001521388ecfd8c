/** What a restricted key must be allowed to do, as Stripe's dashboard names it: by the beginning of a path. */
const RESOURCES: readonly (readonly [path: string, name: string])[] = [
  ['/v1/billing/meter_events', 'Meter events'],
  ['/v1/billing/meters', 'Meters'],
  ['/v1/customers', 'Customers'],
  ['/v1/prices', 'Prices'],
  ['/v1/subscription', 'Subscriptions'],
  ['/v2/core/events', 'Events'],
];

/**
 * The permission that a key lacked. Stripe's own text names it by a code; the text itself is not passed
 * on, since it shows parts of the key.
 */
export function missingPermission(method: string, path: string, said: string): string {
  const resource = RESOURCES.find(([prefix]) => path.startsWith(prefix))?.[1] ?? path;
  const access = method === 'GET' ? 'read' : 'write';
  const code = /'(rak_[a-z0-9_]+)'/.exec(said)?.[1];
  return `"${resource}: ${access}"${code === undefined ? '' : ` (${code})`}`;
}
