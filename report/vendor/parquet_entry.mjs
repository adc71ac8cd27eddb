export {parquetWriteBuffer} from "hyparquet-writer";
