import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRandom } from '../../faults/random.ts';
import { startFakeLago } from '../../fakes/lago/lago.ts';
import { startFakeMetronome } from '../../fakes/metronome/metronome.ts';
import { startFakeStripe } from '../../fakes/stripe/stripe.ts';
import type { Attack } from './attack.ts';
import { VENDOR_ATTACKS, type VendorExchange } from './vendors.ts';

/** The billing systems that the operator delivers to, beside the one that is always honest. */
export const VENDORS = ['lago', 'stripe', 'metronome'] as const;

export type Vendor = (typeof VENDORS)[number];

/** Stand-ins for billing systems, each behind a gate that bends its answers while an attack is under way. */
export interface VendorGates {
  readonly urls: Readonly<Record<string, string>>;
  /** Gives the way to end it. */
  begin(attack: Attack): () => void;
}

type Bend = (exchange: VendorExchange) => void;

/** Of all requests while an attack is under way; the others find it honest, and go deeper. */
const BENT = 0.6;

/** `seen` is told of every request: to whom, and all that it says. */
export async function startVendorGates(
  keys: Readonly<Record<string, string>>,
  seen: (vendor: Vendor, text: string) => void,
): Promise<VendorGates> {
  const key = (vendor: Vendor): string => keys[vendor] ?? '';
  const options = { keepsRequests: false };
  const fakes = {
    lago: await startFakeLago({ ...options, apiKey: key('lago') }),
    stripe: await startFakeStripe({ ...options, apiKey: key('stripe') }),
    metronome: await startFakeMetronome({ ...options, apiToken: key('metronome') }),
  };
  const bends = new Map<Vendor, Set<Bend>>(VENDORS.map((vendor) => [vendor, new Set()]));
  const random = createRandom(1);
  const urls: Record<string, string> = {};
  for (const vendor of VENDORS) {
    const server = createServer((request, response) => {
      response.on('error', () => undefined);
      void exchange(fakes[vendor].url, request, (text) => seen(vendor, text)).then(
        (answer) => {
          const [bend] = bends.get(vendor) ?? [];
          if (bend !== undefined && random.chance(BENT)) bend({ request, response, answer });
          else response.writeHead(answer.status, answer.headers).end(answer.body);
        },
        () => response.destroy(),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    urls[vendor] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  return {
    urls,
    begin: ({ name, seed }) => {
      const made = createRandom(seed);
      const attack = VENDOR_ATTACKS.find((each) => each.name === name);
      const vendor = made.pick(VENDORS);
      const bend = attack?.make(made);
      if (bend !== undefined) bends.get(vendor)?.add(bend);
      return () => {
        if (bend !== undefined) bends.get(vendor)?.delete(bend);
      };
    },
  };
}

/** Asks the stand-in what has been asked of the gate. */
async function exchange(
  url: string,
  request: IncomingMessage,
  seen: (text: string) => void,
): Promise<VendorExchange['answer']> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  seen(`${request.url} ${JSON.stringify(request.headers)} ${body}`);
  const headers = Object.entries(request.headers).flatMap(([name, value]) =>
    typeof value === 'string' && !HOP_BY_HOP.includes(name) ? [[name, value] as const] : [],
  );
  const answer = await fetch(`${url}${request.url}`, {
    method: request.method ?? 'GET',
    headers: Object.fromEntries(headers),
    ...(body === '' ? {} : { body }),
  });
  return {
    status: answer.status,
    headers: { 'content-type': answer.headers.get('content-type') ?? 'application/json' },
    body: await answer.text(),
  };
}

const HOP_BY_HOP = ['connection', 'content-length', 'host', 'keep-alive', 'transfer-encoding'];
