import { override } from '../model/override.ts';
import type { HttpClient } from './http-client.ts';
import { redactPath } from './http-client.ts';
import type { Outbound } from './outbound.ts';

/**
 * HTTP clients that send nothing while `mayAct` is false. Each request is checked, not each operation: a process that
 * was frozen in the middle of an operation of many requests sends none of those that are left.
 */
export function fencedOutbound(outbound: Outbound, mayAct: () => boolean): Outbound {
  return {
    client: (options) => {
      const client = outbound.client(options);
      return override<HttpClient>(client, {
        request: async (request) => {
          if (mayAct()) return client.request(request);
          const what = `HTTP ${request.method} ${redactPath(request.path)}`;
          const reason = `${what}: not sent: the Lease is not renewed`;
          return { kind: 'failed', reason, sent: false, permanent: false };
        },
      });
    },
  };
}
