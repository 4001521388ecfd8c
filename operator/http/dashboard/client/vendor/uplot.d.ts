export { default } from 'uplot';
export type * from 'uplot';
