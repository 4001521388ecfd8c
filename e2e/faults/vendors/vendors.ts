import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { DestinationName, StoodInName } from '../destinations.ts';
import type { Billed } from './stand-in.ts';

/** A stand-in as the suite sees it. */
export interface Vendor {
  readonly name: DestinationName;
  readonly url: string;
  /** Ends it, and gives what it would bill for. */
  bill(): Promise<{ readonly billed: readonly Billed[]; readonly repeats: number }>;
}

export interface Vendors {
  open(name: StoodInName): Promise<Vendor>;
  close(): void;
}

export type VendorOrder =
  | { readonly kind: 'open'; readonly name: StoodInName }
  | { readonly kind: 'bill'; readonly url: string };

export type VendorAnswer =
  | { readonly kind: 'opened'; readonly url: string }
  | { readonly kind: 'billed'; readonly billed: readonly Billed[]; readonly repeats: number };

export function startVendors(): Vendors {
  const child = fork(join(import.meta.dirname, 'process.ts'), { execPath: process.execPath });
  const waiting = new Map<number, PromiseWithResolvers<VendorAnswer>>();
  let last = 0;
  child.on('message', ({ id, answer }: { readonly id: number; readonly answer: VendorAnswer }) => {
    waiting.get(id)?.resolve(answer);
    waiting.delete(id);
  });
  child.once('exit', (code) => {
    const error = new Error(`faults: the vendors' process ended by itself: exit code ${code}`);
    for (const { reject } of waiting.values()) reject(error);
  });
  const command = (order: VendorOrder): Promise<VendorAnswer> => {
    const answered = Promise.withResolvers<VendorAnswer>();
    last += 1;
    waiting.set(last, answered);
    child.send({ id: last, order }, (error) => {
      if (error !== null) answered.reject(error);
    });
    return answered.promise;
  };

  return {
    open: async (name) => {
      const opened = await command({ kind: 'open', name });
      if (opened.kind !== 'opened') throw new Error(`vendors: ${name}: no stand-in`);
      const { url } = opened;
      return {
        name,
        url,
        bill: async () => {
          const answer = await command({ kind: 'bill', url });
          if (answer.kind !== 'billed') throw new Error(`vendors: ${name}: no bill`);
          return answer;
        },
      };
    },
    close: () => child.disconnect(),
  };
}
