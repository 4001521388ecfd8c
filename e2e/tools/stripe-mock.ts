import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { findGoTool } from './go-tools.ts';

/** A running stripe-mock: stateless, it checks requests against Stripe's OpenAPI specification. */
export interface StripeMock {
  readonly url: string;
  close(): Promise<void>;
}

const LISTENING = /Listening for HTTP at address: (\S+)/;

/** Starts it on free ports of 127.0.0.1; rejects when it ends before it listens. */
export async function startStripeMock(): Promise<StripeMock> {
  const program = await findGoTool('stripe-mock', (line) => console.error(`[tools] ${line}`));
  const addresses = ['-http-addr', '127.0.0.1:', '-https-addr', '127.0.0.1:'];
  const child = spawn(program, addresses, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  const address = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`stripe-mock: exit code ${code}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = LISTENING.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  return {
    url: `http://${address}`,
    close: async () => {
      child.kill();
      await exited;
    },
  };
}
