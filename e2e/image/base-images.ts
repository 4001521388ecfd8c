import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
const USERS = [
  'root:x:0:0::/root:/sbin/nologin',
  'nonroot:x:65532:65532::/home/nonroot:/sbin/nologin',
];

/**
 * Lays out the root of an image like the one that the operator runs on: Node, what it links, certificates, an
 * unprivileged user, and neither a shell nor a package manager.
 */
export function layOutRuntime(root: string): void {
  layOut(root, [process.execPath]);
  install(process.execPath, join(root, 'nodejs/bin/node'));
}

/** Lays out the root of an image that npm and the scripts of the repository run in. */
export function layOutBuild(root: string): void {
  const shell = realpathSync('/bin/sh');
  layOut(root, [process.execPath, shell, '/usr/bin/env']);
  install(process.execPath, join(root, 'usr/bin/node'));
  install(shell, join(root, 'usr/bin/sh'));
  install('/usr/bin/env', join(root, 'usr/bin/env'));
  const program = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim());
  cpSync(dirname(dirname(program)), join(root, 'usr/lib/node_modules/npm'), {
    recursive: true,
    dereference: true,
  });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/bin/npm'));
}

function layOut(root: string, programs: readonly string[]): void {
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(root, 'usr', name), { recursive: true });
    symlinkSync(join('usr', name), join(root, name));
  }
  mkdirSync(join(root, 'tmp'));
  chmodSync(join(root, 'tmp'), 0o1777);
  mkdirSync(join(root, 'root'));
  install(CERTIFICATES, join(root, CERTIFICATES));
  writeFileSync(join(root, 'etc/passwd'), `${USERS.join('\n')}\n`);
  for (const program of programs) {
    for (const library of linkedBy(program)) install(library, join(root, library));
  }
}

/** The shared libraries of a program, the loader among them. */
function linkedBy(program: string): string[] {
  const listing = execFileSync('ldd', [program], { encoding: 'utf8' });
  return [...listing.matchAll(/(\/\S+) \(0x/g)].flatMap(([, path]) => path ?? []);
}

function install(file: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(file, target);
}
