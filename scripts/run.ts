import { relative } from 'node:path';
import { type LocalCloud, startLocalCloud } from '../e2e/local/local-cloud.ts';
import { makePortalLink, type PortalLink } from '../e2e/local/portal-link.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { logTail } from '../e2e/processes/managed-process.ts';
import { untilSignal } from './until-signal.ts';

/**
 * `make run`: a whole control plane cluster on this machine, with tenant clusters that change all the
 * time, the operator metering them and a receiver for what it bills. Ctrl-C ends everything; the next
 * start goes on where this one was.
 */
const files = runFiles(process.argv[2]);
const began = performance.now();
const interrupted = untilSignal();
const progress = (line: string): void => {
  const seconds = Math.round((performance.now() - began) / 1000);
  console.log(`[${String(seconds).padStart(3)} s] ${line}`);
};

process.exitCode = await main();

async function main(): Promise<number> {
  const operatorProgram = process.env['OPERATOR_PROGRAM'];
  const cloud = await startLocalCloud({
    files,
    progress,
    signal: interrupted.signal,
    ...(operatorProgram === undefined ? {} : { operatorProgram }),
  }).catch((error: unknown) => {
    if (!interrupted.signal.aborted) {
      console.error(error instanceof Error ? error.message : error);
    }
    return undefined;
  });
  if (cloud === undefined) return interrupted.signal.aborted ? 0 : 1;
  const token = process.env['API_TOKEN'];
  const portal =
    token === undefined
      ? undefined
      : await makePortalLink(cloud.operator.address, token, interrupted.signal).catch(
          () => undefined,
        );
  announce(cloud, portal);
  const failure = await Promise.race([cloud.failed, interrupted.promise]);
  if (failure !== undefined) {
    console.error(`${failure}. ${files.operatorLog} ends\n${logTail(files.operatorLog)}`);
  } else {
    console.log('stopping');
  }
  await cloud.stop();
  return failure === undefined ? 0 : 1;
}

function announce(
  { operator: { address }, invoices, prometheus }: LocalCloud,
  portal: PortalLink | undefined,
): void {
  const path = (file: string): string => relative(process.cwd(), file) || '.';
  const locked = process.env['API_TOKEN'] !== undefined;
  const curl = locked ? 'curl -H "Authorization: Bearer $API_TOKEN"' : 'curl';
  const kubectl = `${path(files.kubectl)} --kubeconfig ${path(files.kubeconfig)}`;
  console.log(
    [
      'ready',
      '',
      `API and dashboard  ${address}`,
      `Invoices           ${invoices} (a stand-in for Lago)`,
      ...(prometheus === undefined ? [] : [`Prometheus         ${prometheus}`]),
      ...(portal === undefined
        ? []
        : [
            '',
            `What the tenant ${portal.tenant} sees of itself, for an hour:`,
            `  ${portal.link}`,
          ]),
      '',
      'Two things are amiss on purpose: the destinations kafka, lago, metronome, stripe and webhook are samples that',
      'want a Secret, and the kubeconfig of tenant cluster relic is one that the operator refuses.',
      '',
      'Try, in another terminal (a window closes every 10 s; the first events are there after half a minute):',
      `  ${curl} '${address}/api/v1/usage?group_by=tenant'`,
      `  ${curl} '${address}/api/v1/costs?group_by=tenant'`,
      `  ${curl} '${address}/api/v1/status'`,
      `  ${curl} '${address}/api/v1/reconcile?from=${today()}'`,
      `  ${kubectl} get meteringpolicies,billingdestinations,tenantoverrides,pricebooks`,
      `  ${kubectl} get pods -A -w`,
      `  tail -f ${path(files.received)}`,
      `  tail -f ${path(files.operatorLog)}`,
      'docs/first-steps.md goes on from here, with a destination of your own.',
      '',
      locked
        ? 'Reading and changing take the token of API_TOKEN; set it in that terminal, too.'
        : 'Reading is open. To push events, to replay, and for a tenant’s own view: `API_TOKEN=try make run`.',
      'Ctrl-C stops everything; `make run` goes on from there, `make clean` forgets it.',
    ].join('\n'),
  );
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
