import { mkdirSync } from 'node:fs';
import { relative } from 'node:path';
import { fleetFiles } from '../e2e/fleet/fleet-directory.ts';
import { type LocalFleet, startLocalFleet } from '../e2e/fleet/local-fleet.ts';
import { type ApiToken, apiTokenOf } from '../e2e/local/api-token.ts';
import { untilSignal } from './until-signal.ts';

/**
 * `make run-fleet`: a complete fleet on this machine: PostgreSQL with two standbys, two simulated
 * clusters with a meter each, and a hub of two processes. The leading one feeds a receiver and a
 * stand-in for Lago. Ctrl-C ends everything; the next start begins again.
 */
const files = fleetFiles(process.argv[2]);
const began = performance.now();
const interrupted = untilSignal();
const progress = (line: string): void => {
  const seconds = Math.round((performance.now() - began) / 1000);
  console.log(`[${String(seconds).padStart(3)} s] ${line}`);
};

process.exitCode = await main();

async function main(): Promise<number> {
  mkdirSync(files.directory, { recursive: true });
  const apiToken = apiTokenOf(files, process.env['API_TOKEN']);
  const fleet = await startLocalFleet({
    files,
    progress,
    signal: interrupted.signal,
    apiToken,
  }).catch((error: unknown) => {
    if (!interrupted.signal.aborted) console.error(error instanceof Error ? error.message : error);
    return undefined;
  });
  if (fleet === undefined) return interrupted.signal.aborted ? 0 : 1;
  announce(fleet, apiToken);
  const failure = await Promise.race([fleet.failed, interrupted.promise]);
  if (failure === undefined) console.log('stopping');
  else console.error(failure);
  await fleet.stop();
  return failure === undefined ? 0 : 1;
}

function announce({ hubs, meters, invoices, database }: LocalFleet, apiToken: ApiToken): void {
  const token = apiToken.isOwn ? `$(cat ${path(files.apiToken)})` : '$API_TOKEN';
  const curl = `curl -H "Authorization: Bearer ${token}"`;
  const [hub, standby] = hubs;
  const address = hub?.address ?? '';
  console.log(
    [
      'ready',
      '',
      `Hub                ${address} leads, ${standby?.address ?? ''} stands by`,
      ...(apiToken.isOwn
        ? [`  API token: ${apiToken.value}, also in ${path(files.apiToken)}`]
        : []),
      `Meters             ${meters.map((one) => one.address).join(', ')}`,
      `Invoices           ${invoices} (a stand-in for Lago)`,
      `Database           ${database}`,
      '',
      'Try, in another terminal (a window closes every 10 s; the first events are there after half a minute):',
      `  ${curl} '${address}/api/v1/fleet'`,
      `  ${curl} '${address}/api/v1/usage?group_by=tenant,cluster'`,
      `  ${curl} '${address}/api/v1/usage?group_by=tenant&cluster=paris'`,
      `  ${curl} '${address}/api/v1/costs?group_by=tenant'   # the amounts of the invoices`,
      `  psql '${database}' -c 'select * from meterfeed_hub.cursor'`,
      `  tail -f ${path(files.received)}`,
      ...['hub-1', 'berlin'].map((name) => `  tail -f ${path(files.of(name).operatorLog)}`),
      'Kill the process of the hub that leads: the other one takes over in about twenty seconds.',
      '',
      'Ctrl-C stops everything; docs/how-to/fleet.md explains this setup.',
    ].join('\n'),
  );
}

function path(file: string): string {
  return relative(process.cwd(), file) || '.';
}
