/** The fields of a kubeconfig that are accepted, by the place where they stand (security D.1). */
export const FIELDS = {
  file: ['apiVersion', 'kind', 'preferences', 'clusters', 'contexts', 'users', 'current-context'],
  cluster: ['server', 'certificate-authority-data', 'tls-server-name'],
  context: ['cluster', 'user', 'namespace'],
  user: ['token', 'client-certificate-data', 'client-key-data'],
} as const;

const READS_A_FILE = 'it would read a file of the operator';
const RUNS_A_PROGRAM = 'it would run a program in the operator';
const IMPERSONATES = 'it would act as somebody else; use a credential that is the reader’s own';
const PASSWORD = 'passwords are not used; give a token or a client certificate';

/** What is wrong with the fields that kubeconfigs elsewhere may have. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['exec', RUNS_A_PROGRAM],
  ['auth-provider', `${RUNS_A_PROGRAM}, or send a credential to an address of its choice`],
  ['tokenFile', READS_A_FILE],
  ['token-file', READS_A_FILE],
  ['certificate-authority', `${READS_A_FILE}; use certificate-authority-data`],
  ['client-certificate', `${READS_A_FILE}; use client-certificate-data`],
  ['client-key', `${READS_A_FILE}; use client-key-data`],
  ['proxy-url', 'it would send everything through an address of its choice'],
  ['insecure-skip-tls-verify', 'the other side could be anybody; use certificate-authority-data'],
  ['disable-compression', 'it is not used; leave it out'],
  ['as', IMPERSONATES],
  ['as-uid', IMPERSONATES],
  ['as-groups', IMPERSONATES],
  ['as-user-extra', IMPERSONATES],
  ['username', PASSWORD],
  ['password', PASSWORD],
]);

/** Why a field is refused, for whoever wrote it. */
export function whyRefused(field: string): string {
  return REASONS.get(field) ?? 'unknown here; leave it out';
}
