import { mkdirSync } from 'node:fs';
import { relative } from 'node:path';
import { type ApiToken, apiTokenOf } from '../e2e/local/api-token.ts';
import { type LocalCloud, startLocalCloud } from '../e2e/local/local-cloud.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { beginTrial, TRIAL } from '../e2e/local/trial-tenant.ts';
import { logTail } from '../e2e/processes/managed-process.ts';
import { untilSignal } from './until-signal.ts';

/**
 * `make run`: a complete control plane cluster on this machine, with tenant clusters that change
 * all the time, an AI gateway, the operator, and a receiver of its events. One tenant is prepaid and
 * is stopped when its balance is used up. Ctrl-C ends everything; the next start continues.
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
  mkdirSync(files.directory, { recursive: true });
  const apiToken = apiTokenOf(files, process.env['API_TOKEN']);
  const operatorProgram = process.env['OPERATOR_PROGRAM'];
  const cloud = await startLocalCloud({
    files,
    progress,
    signal: interrupted.signal,
    apiToken,
    operatorProgram,
  }).catch((error: unknown) => {
    if (!interrupted.signal.aborted) {
      console.error(error instanceof Error ? error.message : error);
    }
    return undefined;
  });
  if (cloud === undefined) return interrupted.signal.aborted ? 0 : 1;
  announce(cloud, apiToken);
  const ending = new AbortController();
  const trial = showTrial(cloud, apiToken, ending.signal);
  const failure = await Promise.race([cloud.failed, interrupted.promise]);
  ending.abort();
  await trial;
  if (failure !== undefined) {
    console.error(`${failure}. ${files.operatorLog} ends\n${logTail(files.operatorLog)}`);
  } else {
    console.log('stopping');
  }
  await cloud.stop();
  return failure === undefined ? 0 : 1;
}

/** Credits the prepaid tenant, and prints its portal page and how to add credit. */
async function showTrial(
  { operator: { address } }: LocalCloud,
  apiToken: ApiToken,
  signal: AbortSignal,
): Promise<void> {
  const { tenant, amount, currency } = TRIAL;
  const options = { address, apiToken: apiToken.value, log: progress, signal };
  const trial = await beginTrial(options).catch(() => undefined);
  if (trial === undefined) return;
  const credit = `{"key":"'$(date +%s)'","amount":"${amount}","currency":"${currency}"}`;
  progress(`the tenant ${tenant} is prepaid and has ${amount} ${currency}`);
  console.log(
    [
      '',
      'In one to two minutes that is used up. Its new pods and its requests at the AI gateway are refused (lines here report it).',
      'Its running pods continue and are billed. To admit both again, add credit:',
      `  ${curlWith(apiToken)} -H 'Content-Type: application/json' -d '${credit}' '${address}/api/v1/tenants/${tenant}/credits'`,
      ...(trial.link === undefined
        ? []
        : ['Its portal page with usage and balance, valid for an hour:', `  ${trial.link}`]),
      '',
    ].join('\n'),
  );
}

/** The curl command as typed into a shell. A token that the caller has set is never printed. */
function curlWith({ isOwn }: ApiToken): string {
  const value = isOwn ? `$(cat ${path(files.apiToken)})` : '$API_TOKEN';
  return `curl -H "Authorization: Bearer ${value}"`;
}

function path(file: string): string {
  return relative(process.cwd(), file) || '.';
}

function announce(
  { operator: { address }, invoices, prometheus }: LocalCloud,
  apiToken: ApiToken,
): void {
  const curl = curlWith(apiToken);
  const kubectl = `${path(files.kubectl)} --kubeconfig ${path(files.kubeconfig)}`;
  console.log(
    [
      'ready',
      '',
      `API and dashboard  ${address}`,
      ...(apiToken.isOwn
        ? [`  API token: ${apiToken.value}, also in ${path(files.apiToken)}`]
        : []),
      `Invoices           ${invoices} (a stand-in for Lago)`,
      ...(prometheus === undefined ? [] : [`Prometheus         ${prometheus}`]),
      '',
      'Two things are wrong on purpose: the destinations kafka, lago, metronome, stripe and webhook are samples that',
      'want a Secret, and the kubeconfig of tenant cluster relic is one that the operator refuses.',
      'A simulated AI gateway reports requests of the tenants acme, studio and trial; their tokens are there after one to two minutes.',
      'The dashboard and the invoices show the same amounts in EUR; a page of the dashboard is up to two minutes old.',
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
      'docs/tutorials/first-steps.md goes on from here, with a destination of your own.',
      '',
      ...(apiToken.isOwn
        ? []
        : ['Reading and changing need API_TOKEN; set it in that terminal, too.']),
      'Ctrl-C stops everything; `make run` continues from there, `make clean` deletes it.',
    ].join('\n'),
  );
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
