import { setTimeout } from 'node:timers/promises';
import { isRecord } from '../../operator/model/is-record.ts';

const PATIENCE_MS = 30_000;
const AGAIN_MS = 500;

/** The link to one tenant's own view. */
export interface PortalLink {
  readonly tenant: string;
  readonly link: string;
}

/** Makes a token for the first tenant that an operator knows; undefined where it has no portal, or knows none in half a minute. */
export async function makePortalLink(
  address: string,
  apiToken: string,
  signal: AbortSignal,
): Promise<PortalLink | undefined> {
  const ask = async (path: string, method = 'GET'): Promise<unknown> => {
    const headers = { authorization: `Bearer ${apiToken}` };
    return (await fetch(`${address}${path}`, { method, headers, signal })).json();
  };
  const until = performance.now() + PATIENCE_MS;
  while (performance.now() < until) {
    const tenants = fieldOf(await ask('/api/v1/tenants'), 'tenants');
    if (!Array.isArray(tenants)) return undefined;
    const tenant = fieldOf(tenants[0], 'id');
    if (typeof tenant === 'string') {
      const path = `/api/v1/tenants/${encodeURIComponent(tenant)}/portal-tokens`;
      const link = fieldOf(await ask(path, 'POST'), 'link');
      return typeof link === 'string' ? { tenant, link: `${address}${link}` } : undefined;
    }
    await setTimeout(AGAIN_MS, undefined, { signal });
  }
  return undefined;
}

function fieldOf(value: unknown, name: string): unknown {
  return isRecord(value) ? value[name] : undefined;
}
